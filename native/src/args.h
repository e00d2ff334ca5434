// Reads the options objects that lib/*.js hands over. Each getter checks the type again, and the range where C++ would
// narrow the number, so that no call from JavaScript, ours or not, is undefined behaviour.
#pragma once

#include <napi.h>

#include <cstdint>
#include <string>
#include <vector>

namespace lockgate {

/** Whole numbers that a double holds exactly. */
constexpr int64_t MAX_SAFE_INTEGER = (int64_t{1} << 53) - 1;

/** Every getter throws Failure invalid_argument, naming the field. */
class Args {
  public:
    explicit Args(const Napi::Value & value);

    bool                     has(const char * name) const;
    int64_t                  integer(const char * name, int64_t min, int64_t max) const;
    float                    number(const char * name) const;
    bool                     flag(const char * name) const;
    std::string              text(const char * name) const;
    std::vector<std::string> texts(const char * name) const;
    std::vector<int32_t>     int32s(const char * name) const;
    Napi::Array              array(const char * name) const;
    Napi::Object             object(const char * name) const;

  private:
    Napi::Object object_;
};

/** Throws Failure invalid_argument unless it is a function. */
Napi::Function function_argument(const Napi::CallbackInfo & info, size_t index);

}  // namespace lockgate
