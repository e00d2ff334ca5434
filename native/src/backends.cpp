#include "backends.h"

#include "errors.h"
#include "log.h"

#include <dlfcn.h>
#include <llama.h>

#include <filesystem>
#include <mutex>

namespace lockgate {

namespace {

std::once_flag             load_once;
std::vector<BackendReport> reports;

std::string path_or_unknown(const Dl_info & info) {
    return info.dli_fname == nullptr ? "" : info.dli_fname;
}

/** Why this library gives no device, or an empty text when it does. */
std::string try_load(const std::string & path) {
    // ggml_backend_load() keeps dlerror() to its log, so ask the loader first.
    void * handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
        const char * words = dlerror();
        return words == nullptr ? "the dynamic loader gave no reason" : words;
    }
    std::string reason;
    {
        const LogCapture   capture;
        ggml_backend_reg_t registry = ggml_backend_load(path.c_str());
        if (registry == nullptr) {
            reason = capture.reason("it is no backend of this llama.cpp");
        } else if (ggml_backend_reg_dev_count(registry) == 0) {
            reason = "no device found: " + capture.reason("the driver lists none");
        }
    }
    dlclose(handle);
    return reason;
}

BackendReport load_gpu_backend(const GpuBackendSearch & search) {
    BackendReport report{search.name, std::nullopt, false, search.absent_reason};
    if (!search.paths.empty()) {
        report.path = search.paths.front();
        report.reason.clear();
    }
    ggml_backend_reg_t registry = ggml_backend_reg_by_name(search.registry_name.c_str());
    if (registry != nullptr && ggml_backend_reg_dev_count(registry) > 0) {
        // It lay beside libllama and came with the CPU backend.
        return BackendReport{search.name, report.path, true, ""};
    }
    for (const std::string & path : search.paths) {
        const std::string reason = try_load(path);
        if (reason.empty()) {
            return BackendReport{search.name, path, true, ""};
        }
        report.reason += (report.reason.empty() ? "" : "; ") + path + ": " + reason;
    }
    return report;
}

BackendReport load_cpu_backend(const std::string & directory) {
    ggml_backend_load_all_from_path(directory.c_str());
    BackendReport      report{"cpu", directory, false, "no libggml-cpu of " + directory + " fits this processor"};
    ggml_backend_reg_t registry = ggml_backend_reg_by_name("CPU");
    if (registry == nullptr) {
        return report;
    }
    // The registry's own symbol tells which of the libraries, one a micro-architecture, was chosen.
    Dl_info info{};
    if (dladdr(ggml_backend_reg_get_proc_address(registry, "ggml_backend_set_n_threads"), &info) != 0) {
        report.path = path_or_unknown(info);
    }
    report.loaded = true;
    report.reason.clear();
    return report;
}

const char * kind_of(ggml_backend_dev_t device) {
    switch (ggml_backend_dev_type(device)) {
        case GGML_BACKEND_DEVICE_TYPE_CPU:  return "cpu";
        case GGML_BACKEND_DEVICE_TYPE_GPU:  return "gpu";
        case GGML_BACKEND_DEVICE_TYPE_IGPU: return "igpu";
        default:                            return "accelerator";
    }
}

}  // namespace

std::string llama_library_directory() {
    Dl_info info{};
    if (dladdr(reinterpret_cast<const void *>(&llama_backend_init), &info) == 0) {
        return "";
    }
    return std::filesystem::weakly_canonical(path_or_unknown(info)).parent_path().string();
}

void load_backends(const std::vector<GpuBackendSearch> & gpus) {
    std::call_once(load_once, [&gpus] {
        install_log();
        llama_backend_init();
        reports.push_back(load_cpu_backend(llama_library_directory()));
        for (const GpuBackendSearch & search : gpus) {
            reports.push_back(load_gpu_backend(search));
        }
    });
}

const std::vector<BackendReport> & backend_reports() {
    return reports;
}

std::vector<DeviceInfo> list_devices() {
    std::vector<DeviceInfo> devices;
    for (size_t i = 0; i < ggml_backend_dev_count(); i++) {
        ggml_backend_dev_t device = ggml_backend_dev_get(i);
        DeviceInfo         info;
        info.name        = ggml_backend_dev_name(device);
        info.description = ggml_backend_dev_description(device);
        info.kind        = kind_of(device);
        ggml_backend_dev_memory(device, &info.memory_free_bytes, &info.memory_total_bytes);
        devices.push_back(info);
    }
    return devices;
}

ggml_backend_dev_t find_device(const std::string & name) {
    ggml_backend_dev_t device = ggml_backend_dev_by_name(name.c_str());
    if (device != nullptr) {
        return device;
    }
    std::string known;
    for (size_t i = 0; i < ggml_backend_dev_count(); i++) {
        known += (known.empty() ? "" : ", ") + std::string(ggml_backend_dev_name(ggml_backend_dev_get(i)));
    }
    throw Failure(ErrorCode::unknown_device, "no device is called \"" + name + "\"; here are: " + known);
}

}  // namespace lockgate
