// The decoder's events as JavaScript sees them.
#pragma once

#include "turn.h"

#include <napi.h>

#include <vector>

namespace lockgate {

/** An array of `DecoderEvent` (index.d.ts), in order. */
Napi::Array to_js_events(Napi::Env env, const std::vector<Event> & events);

}  // namespace lockgate
