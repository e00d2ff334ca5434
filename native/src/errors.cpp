#include "errors.h"

#include <new>

namespace lockgate {

const char * error_name(ErrorCode code) {
    switch (code) {
        case ErrorCode::invalid_argument: return "ERR_INVALID_ARGUMENT";
        case ErrorCode::file_not_found:   return "ERR_FILE_NOT_FOUND";
        case ErrorCode::not_a_model:      return "ERR_NOT_A_MODEL";
        case ErrorCode::unknown_device:   return "ERR_UNKNOWN_DEVICE";
        case ErrorCode::out_of_memory:    return "ERR_OUT_OF_MEMORY";
        case ErrorCode::cancelled:        return "ERR_CANCELLED";
        case ErrorCode::context_exceeded: return "ERR_CONTEXT_EXCEEDED";
        case ErrorCode::slot_busy:        return "ERR_SLOT_BUSY";
        case ErrorCode::closed:           return "ERR_CLOSED";
        case ErrorCode::decode:           return "ERR_DECODE";
    }
    return "ERR_DECODE";
}

Failure current_failure() {
    try {
        throw;
    } catch (const Failure & failure) {
        return failure;
    } catch (const std::bad_alloc &) {
        return Failure(ErrorCode::out_of_memory, "out of memory");
    } catch (const std::exception & error) {
        return Failure(ErrorCode::decode, error.what());
    } catch (...) {
        return Failure(ErrorCode::decode, "an unknown C++ exception");
    }
}

}  // namespace lockgate
