// `ModelInfo` (index.d.ts) of a loaded model.
#pragma once

#include "loaded_model.h"

#include <napi.h>

namespace lockgate {

Napi::Object to_js_model_info(Napi::Env env, const LoadedModel & model);

}  // namespace lockgate
