// A model's work that leaves the JavaScript thread: loading on a thread of its own (it may take minutes), tokenising and
// freeing on Node's pool.
#pragma once

#include "loaded_model.h"

#include <napi.h>

#include <memory>
#include <string>
#include <vector>

namespace lockgate {

/**
 * Starts a load. Gives `{ promise, cancel() }`; the promise resolves to a ModelHandle. `on_progress` gets a fraction,
 * at most about 20 times a second.
 */
Napi::Object load_later(Napi::Env env, LoadRequest request, Napi::Function on_progress);

struct TokenizeRequest {
    std::string text;
    bool        add_special;
    bool        parse_special;
};

std::vector<llama_token> tokenize_now(const LoadedModel & model, const TokenizeRequest & request);

/** As an Int32Array. */
Napi::Int32Array to_js_tokens(Napi::Env env, const std::vector<llama_token> & tokens);

/** Resolves to an Int32Array. */
Napi::Promise tokenize_later(Napi::Env env, std::shared_ptr<LoadedModel> model, TokenizeRequest request);

/** Drops the owner's share of the model (null: nothing to drop); resolves when that is done. */
Napi::Promise release_later(Napi::Env env, std::shared_ptr<LoadedModel> model);

}  // namespace lockgate
