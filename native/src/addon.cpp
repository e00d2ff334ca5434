// What the addon exports to lib/*.js. index.d.ts is the contract of the whole module; this is its inner face.

#include "addon_data.h"
#include "affinity.h"
#include "args.h"
#include "backends.h"
#include "decoder_handle.h"
#include "js_errors.h"
#include "log_bridge.h"
#include "model_handle.h"
#include "model_workers.h"

#include <llama.h>
#include <napi.h>

namespace lockgate {

namespace {

/** initBackends([{ name, registry, paths, absentReason }]): the GPU backends to look for. */
void init_backends(const Napi::CallbackInfo & info) {
    guarded(info.Env(), [&] {
        if (!info[0].IsArray()) {
            throw Failure(ErrorCode::invalid_argument, "backends must be an array");
        }
        const auto                    searches = info[0].As<Napi::Array>();
        std::vector<GpuBackendSearch> gpus;
        for (uint32_t i = 0; i < searches.Length(); i++) {
            const Napi::Value value = searches.Get(i);
            const Args        search(value);
            gpus.push_back({search.text("name"), search.text("registry"), search.texts("paths"),
                            search.text("absentReason")});
        }
        load_backends(gpus);
    });
}

Napi::Value js_list_backends(const Napi::CallbackInfo & info) {
    const Napi::Env env    = info.Env();
    Napi::Array     result = Napi::Array::New(env);
    for (const BackendReport & report : backend_reports()) {
        Napi::Object backend = Napi::Object::New(env);
        backend.Set("name", report.name);
        backend.Set("path", report.path.has_value() ? Napi::String::New(env, *report.path) : env.Null());
        backend.Set("loaded", report.loaded);
        backend.Set("reason", report.loaded ? env.Null() : Napi::String::New(env, report.reason));
        result.Set(result.Length(), backend);
    }
    return result;
}

Napi::Value js_list_devices(const Napi::CallbackInfo & info) {
    const Napi::Env env    = info.Env();
    Napi::Array     result = Napi::Array::New(env);
    for (const DeviceInfo & from : list_devices()) {
        Napi::Object device = Napi::Object::New(env);
        device.Set("name", from.name);
        device.Set("description", from.description);
        device.Set("kind", from.kind);
        device.Set("memoryFreeBytes", static_cast<double>(from.memory_free_bytes));
        device.Set("memoryTotalBytes", static_cast<double>(from.memory_total_bytes));
        result.Set(result.Length(), device);
    }
    return result;
}

/** loadModel({ path, devices?, vocabOnly }, onProgress): { promise, cancel }. */
Napi::Value js_load_model(const Napi::CallbackInfo & info) {
    return guarded(info.Env(), [&]() -> Napi::Value {
        const Args  args(info[0]);
        LoadRequest request;
        request.path          = args.text("path");
        request.vocab_only    = args.flag("vocabOnly");
        request.devices_given = args.has("devices");
        if (request.devices_given) {
            request.devices = args.texts("devices");
        }
        return load_later(info.Env(), std::move(request), function_argument(info, 1));
    });
}

void js_set_cpu_affinity(const Napi::CallbackInfo & info) {
    guarded(info.Env(), [&] { set_cpu_affinity(Args(info[0]).int32s("cores")); });
}

/** endThreads(): before the process exits. */
void js_end_threads(const Napi::CallbackInfo & info) {
    JsThread::end_all(info.Env());
}

Napi::Object init(Napi::Env env, Napi::Object exports) {
    auto * data         = new AddonData();
    data->model_class   = Napi::Persistent(ModelHandle::define(env));
    data->decoder_class = Napi::Persistent(DecoderHandle::define(env));
    env.SetInstanceData(data);
    exports.Set("llamaVersion", llama_version());
    exports.Set("libraryDirectory", llama_library_directory());
    exports.Set("initBackends", Napi::Function::New<init_backends>(env));
    exports.Set("listBackends", Napi::Function::New<js_list_backends>(env));
    exports.Set("listDevices", Napi::Function::New<js_list_devices>(env));
    exports.Set("loadModel", Napi::Function::New<js_load_model>(env));
    exports.Set("setLogHandler", Napi::Function::New<set_log_handler>(env));
    exports.Set("setCpuAffinity", Napi::Function::New<js_set_cpu_affinity>(env));
    exports.Set("endThreads", Napi::Function::New<js_end_threads>(env));
    return exports;
}

}  // namespace

NODE_API_MODULE(lockgate, init)

}  // namespace lockgate
