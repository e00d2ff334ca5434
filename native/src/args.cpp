#include "args.h"

#include "errors.h"

#include <cmath>

namespace lockgate {

namespace {

[[noreturn]] void refuse(const std::string & name, const std::string & expected) {
    throw Failure(ErrorCode::invalid_argument, name + " must be " + expected);
}

}  // namespace

Args::Args(const Napi::Value & value) {
    if (!value.IsObject()) {
        refuse("options", "an object");
    }
    object_ = value.As<Napi::Object>();
}

bool Args::has(const char * name) const {
    return !object_.Get(name).IsUndefined();
}

int64_t Args::integer(const char * name, int64_t min, int64_t max) const {
    const Napi::Value value  = object_.Get(name);
    const double      number = value.IsNumber() ? value.As<Napi::Number>().DoubleValue() : NAN;
    if (!(number >= static_cast<double>(min) && number <= static_cast<double>(max)) || number != std::floor(number)) {
        refuse(name, "an integer from " + std::to_string(min) + " to " + std::to_string(max));
    }
    return static_cast<int64_t>(number);
}

float Args::number(const char * name) const {
    const Napi::Value value = object_.Get(name);
    if (!value.IsNumber()) {
        refuse(name, "a number");
    }
    return value.As<Napi::Number>().FloatValue();
}

bool Args::flag(const char * name) const {
    const Napi::Value value = object_.Get(name);
    if (!value.IsBoolean()) {
        refuse(name, "a boolean");
    }
    return value.As<Napi::Boolean>().Value();
}

std::string Args::text(const char * name) const {
    const Napi::Value value = object_.Get(name);
    if (!value.IsString()) {
        refuse(name, "a string");
    }
    return value.As<Napi::String>().Utf8Value();
}

std::vector<std::string> Args::texts(const char * name) const {
    const Napi::Array        values = array(name);
    std::vector<std::string> texts;
    for (uint32_t i = 0; i < values.Length(); i++) {
        const Napi::Value value = values.Get(i);
        if (!value.IsString()) {
            refuse(name, "an array of strings");
        }
        texts.push_back(value.As<Napi::String>().Utf8Value());
    }
    return texts;
}

std::vector<int32_t> Args::int32s(const char * name) const {
    const Napi::Value value = object_.Get(name);
    if (!value.IsTypedArray() || value.As<Napi::TypedArray>().TypedArrayType() != napi_int32_array) {
        refuse(name, "an Int32Array");
    }
    const auto numbers = value.As<Napi::Int32Array>();
    return std::vector<int32_t>(numbers.Data(), numbers.Data() + numbers.ElementLength());
}

Napi::Array Args::array(const char * name) const {
    const Napi::Value value = object_.Get(name);
    if (!value.IsArray()) {
        refuse(name, "an array");
    }
    return value.As<Napi::Array>();
}

Napi::Object Args::object(const char * name) const {
    const Napi::Value value = object_.Get(name);
    if (!value.IsObject()) {
        refuse(name, "an object");
    }
    return value.As<Napi::Object>();
}

Napi::Function function_argument(const Napi::CallbackInfo & info, size_t index) {
    const Napi::Value value = info[index];
    if (!value.IsFunction()) {
        refuse("argument " + std::to_string(index + 1), "a function");
    }
    return value.As<Napi::Function>();
}

}  // namespace lockgate
