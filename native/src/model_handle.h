// The JavaScript object of a loaded model.
#pragma once

#include "loaded_model.h"

#include <napi.h>

#include <memory>

namespace lockgate {

class ModelHandle : public Napi::ObjectWrap<ModelHandle> {
  public:
    static Napi::Function define(Napi::Env env);
    /** Wraps a model that was loaded. */
    static Napi::Object create(Napi::Env env, std::shared_ptr<LoadedModel> model);

    explicit ModelHandle(const Napi::CallbackInfo & info);

  private:
    Napi::Value info(const Napi::CallbackInfo & info);
    Napi::Value tokenize(const Napi::CallbackInfo & info);
    Napi::Value tokenize_sync(const Napi::CallbackInfo & info);
    Napi::Value pieces(const Napi::CallbackInfo & info);
    Napi::Value create_decoder(const Napi::CallbackInfo & info);
    Napi::Value close(const Napi::CallbackInfo & info);

    /** Throws Failure closed. */
    const std::shared_ptr<LoadedModel> & open_model() const;

    std::shared_ptr<LoadedModel> model_;  // null once closed
};

}  // namespace lockgate
