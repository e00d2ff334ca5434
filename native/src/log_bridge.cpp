#include "log_bridge.h"

#include "addon_data.h"
#include "args.h"
#include "js_errors.h"

namespace lockgate {

namespace {

/** Lines that wait for the JavaScript thread; more are dropped, for a log must not fill the memory. */
constexpr size_t MAX_QUEUED_LINES = 4096;

}  // namespace

LogBridge::LogBridge(Napi::Env env, Napi::Function handler) :
    env_(env), function_(Function::New(env, handler, "lockgate log", MAX_QUEUED_LINES, 1)) {
    function_.Unref(env);
    // Cleanup hooks run last in, first out: this one runs before the function above is torn down.
    cleanup_hook_ = env.AddCleanupHook(&LogBridge::on_environment_end, this);
    set_log_sink(this, [this](LogLevel level, const std::string & text) {
        auto line = std::make_unique<Line>(Line{level, text});
        if (function_.NonBlockingCall(line.get()) == napi_ok) {
            line.release();
        }
    });
}

LogBridge::~LogBridge() {
    if (!released_) {
        cleanup_hook_.Remove(env_);
        release();
    }
}

void LogBridge::release() {
    remove_log_sink(this);
    function_.Release();
    released_ = true;
}

void LogBridge::on_environment_end(LogBridge * self) {
    self->release();
}

void LogBridge::call(Napi::Env env, Napi::Function handler, std::nullptr_t *, Line * line) {
    const std::unique_ptr<Line> owned(line);
    if (static_cast<napi_env>(env) != nullptr) {
        handler.Call({Napi::String::New(env, log_level_name(owned->level)), Napi::String::New(env, owned->text)});
    }
}

void set_log_handler(const Napi::CallbackInfo & info) {
    guarded(info.Env(), [&] {
        auto & bridge = info.Env().GetInstanceData<AddonData>()->log_bridge;
        bridge.reset();
        if (!info[0].IsNull()) {
            bridge = std::make_unique<LogBridge>(info.Env(), function_argument(info, 0));
        }
    });
}

}  // namespace lockgate
