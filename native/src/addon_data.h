// What one JavaScript environment (main thread or worker) has of the addon.
#pragma once

#include "js_thread.h"
#include "log_bridge.h"

#include <napi.h>

#include <memory>

namespace lockgate {

struct AddonData {
    Napi::FunctionReference    model_class;
    Napi::FunctionReference    decoder_class;
    JsThreads                  threads;
    std::unique_ptr<LogBridge> log_bridge;  // null: the default
};

}  // namespace lockgate
