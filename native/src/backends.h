// llama.cpp's backends: loaded once a process, whatever came of it is kept for listBackends().
// Knows no package layout: lib/load-addon.js says which files to try.
#pragma once

#include <ggml-backend.h>

#include <optional>
#include <string>
#include <vector>

namespace lockgate {

/** A GPU backend to look for. */
struct GpuBackendSearch {
    std::string              name;           // as index.d.ts names it
    std::string              registry_name;  // as ggml registers it
    std::vector<std::string> paths;          // libraries to try, in order
    std::string              absent_reason;  // said when there is nothing to try
};

struct BackendReport {
    std::string                name;
    std::optional<std::string> path;
    bool                       loaded = false;
    std::string                reason;  // empty when loaded
};

struct DeviceInfo {
    std::string name;
    std::string description;
    std::string kind;
    size_t      memory_free_bytes  = 0;
    size_t      memory_total_bytes = 0;
};

/** Folder of the libllama that is in use: its CPU backends lie beside it. */
std::string llama_library_directory();

/** Loads the CPU backend that fits this processor, and the GPU backends. Later calls, from any thread, do nothing. */
void load_backends(const std::vector<GpuBackendSearch> & gpus);

/** What load_backends() found. */
const std::vector<BackendReport> & backend_reports();

std::vector<DeviceInfo> list_devices();

/** Throws Failure ERR_UNKNOWN_DEVICE, which lists the known ones. */
ggml_backend_dev_t find_device(const std::string & name);

}  // namespace lockgate
