#include "loaded_model.h"

#include "backends.h"
#include "errors.h"
#include "log.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace lockgate {

namespace {

/** llama.cpp gives the same null for "no such file" and "not a model"; tell them apart before. */
void require_readable(const std::string & path) {
    std::error_code problem;
    if (std::filesystem::is_directory(path, problem)) {
        throw Failure(ErrorCode::file_not_found, path + ": is a directory");
    }
    errno = 0;
    std::ifstream file(path, std::ios::binary);
    if (!file.is_open()) {
        throw Failure(ErrorCode::file_not_found, path + ": " + std::strerror(errno == 0 ? ENOENT : errno));
    }
}

/** The devices that take layers, null-terminated as llama.cpp wants them; only the null when the CPU is asked for. */
std::vector<ggml_backend_dev_t> offload_devices(const std::vector<std::string> & names) {
    std::vector<ggml_backend_dev_t> devices;
    bool                            cpu = false;
    for (const std::string & name : names) {
        ggml_backend_dev_t device = find_device(name);
        if (ggml_backend_dev_type(device) == GGML_BACKEND_DEVICE_TYPE_CPU) {
            cpu = true;
        } else {
            devices.push_back(device);
        }
    }
    if (cpu && !devices.empty()) {
        throw Failure(ErrorCode::invalid_argument, "devices: the CPU cannot share the layers with another device");
    }
    devices.push_back(nullptr);
    return devices;
}

struct ProgressState {
    const LoadedModel::Progress & progress;
    bool                          cancelled = false;
};

bool on_progress(float fraction, void * user_data) {
    auto * state = static_cast<ProgressState *>(user_data);
    if (!state->progress(fraction)) {
        state->cancelled = true;
    }
    return !state->cancelled;
}

}  // namespace

bool speaks_of_memory(const std::string & reason) {
    std::string lower = reason;
    std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
    return lower.find("alloc") != std::string::npos || lower.find("out of memory") != std::string::npos;
}

std::shared_ptr<LoadedModel> LoadedModel::load(const LoadRequest & request, const Progress & progress) {
    require_readable(request.path);

    std::vector<ggml_backend_dev_t> devices;
    llama_model_params              params = llama_model_default_params();
    if (request.devices_given) {
        devices             = offload_devices(request.devices);
        params.devices      = devices.data();
        params.n_gpu_layers = devices.size() == 1 ? 0 : -1;
    }
    ProgressState state{progress};
    params.vocab_only                  = request.vocab_only;
    params.progress_callback           = on_progress;
    params.progress_callback_user_data = &state;

    const LogCapture capture;
    llama_model *    model = llama_model_load_from_file(request.path.c_str(), params);
    if (model == nullptr) {
        if (state.cancelled) {
            throw Failure(ErrorCode::cancelled, "the load was cancelled");
        }
        const std::string reason = capture.reason("llama.cpp gave no reason");
        throw Failure(speaks_of_memory(reason) ? ErrorCode::out_of_memory : ErrorCode::not_a_model,
                      request.path + ": " + reason);
    }
    std::shared_ptr<LoadedModel> loaded(new LoadedModel(model, request.vocab_only));
    // A cancel that came after llama.cpp's last look (or in a vocabulary-only load, which has none) counts too.
    if (state.cancelled || !progress(1.0F)) {
        throw Failure(ErrorCode::cancelled, "the load was cancelled");
    }
    return loaded;
}

LoadedModel::~LoadedModel() {
    llama_model_free(model_);
}

}  // namespace lockgate
