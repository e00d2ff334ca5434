// The module's error codes. Knows neither llama.cpp nor JavaScript (js_errors.h does).
#pragma once

#include <stdexcept>
#include <string>

namespace lockgate {

enum class ErrorCode {
    invalid_argument,
    file_not_found,
    not_a_model,
    unknown_device,
    out_of_memory,
    cancelled,
    context_exceeded,
    slot_busy,
    closed,
    decode,
};

/** The code as index.d.ts names it, e.g. `ERR_SLOT_BUSY`. */
const char * error_name(ErrorCode code);

/** An expected failure on its way to JavaScript. */
class Failure : public std::runtime_error {
  public:
    Failure(ErrorCode failure_code, const std::string & message) : std::runtime_error(message), code(failure_code) {}
    const ErrorCode code;
};

/** The Failure that stands for the exception that is being handled. Call it inside a catch block only. */
Failure current_failure();

}  // namespace lockgate
