// How a C++ failure becomes a JavaScript Error with a `code`.
#pragma once

#include "errors.h"

#include <napi.h>

#include <string>

namespace lockgate {

Napi::Error to_js_error(Napi::Env env, ErrorCode code, const std::string & message);

/** Runs body; whatever it throws reaches JavaScript as an Error with a code, never as a foreign C++ exception. */
template <typename Body>
auto guarded(Napi::Env env, Body && body) -> decltype(body()) {
    try {
        return body();
    } catch (const Napi::Error &) {
        throw;
    } catch (...) {
        const Failure failure = current_failure();
        throw to_js_error(env, failure.code, failure.what());
    }
}

}  // namespace lockgate
