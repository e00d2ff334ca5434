#include "js_errors.h"

namespace lockgate {

Napi::Error to_js_error(Napi::Env env, ErrorCode code, const std::string & message) {
    Napi::Error error = Napi::Error::New(env, message);
    error.Set("code", Napi::String::New(env, error_name(code)));
    return error;
}

}  // namespace lockgate
