#include "model_info.h"

#include <functional>
#include <string>
#include <vector>

namespace lockgate {

namespace {

/** Reads a text through one of llama.cpp's snprintf-like getters, whatever its length. Empty where there is none. */
std::string read_text(const std::function<int32_t(char * buffer, size_t size)> & getter) {
    std::vector<char> buffer(256);
    int32_t           length = getter(buffer.data(), buffer.size());
    if (length >= static_cast<int32_t>(buffer.size())) {
        buffer.resize(static_cast<size_t>(length) + 1);
        length = getter(buffer.data(), buffer.size());
    }
    return length <= 0 ? std::string() : std::string(buffer.data(), static_cast<size_t>(length));
}

Napi::Object metadata_of(Napi::Env env, const llama_model * model) {
    Napi::Object metadata = Napi::Object::New(env);
    for (int32_t i = 0; i < llama_model_meta_count(model); i++) {
        const std::string key =
            read_text([&](char * b, size_t n) { return llama_model_meta_key_by_index(model, i, b, n); });
        metadata.Set(key, read_text([&](char * b, size_t n) { return llama_model_meta_val_str_by_index(model, i, b, n); }));
    }
    return metadata;
}

Napi::Value token_text(Napi::Env env, const llama_vocab * vocab, llama_token token) {
    if (token == LLAMA_TOKEN_NULL) {
        return env.Null();
    }
    return Napi::String::New(env, llama_vocab_get_text(vocab, token));
}

Napi::Array end_tokens(Napi::Env env, const LoadedModel & model) {
    Napi::Array tokens = Napi::Array::New(env);
    for (llama_token token = 0; token < model.vocab_size(); token++) {
        if (llama_vocab_is_eog(model.vocab(), token)) {
            tokens.Set(tokens.Length(), token);
        }
    }
    return tokens;
}

/** The texts that only a template may bring into a prompt. User-defined tokens are left out: those are pieces of ordinary text. */
Napi::Array special_texts(Napi::Env env, const LoadedModel & model) {
    Napi::Array texts = Napi::Array::New(env);
    for (llama_token token = 0; token < model.vocab_size(); token++) {
        if (llama_vocab_is_control(model.vocab(), token) || llama_vocab_is_eog(model.vocab(), token)) {
            texts.Set(texts.Length(), Napi::String::New(env, llama_vocab_get_text(model.vocab(), token)));
        }
    }
    return texts;
}

}  // namespace

Napi::Object to_js_model_info(Napi::Env env, const LoadedModel & loaded) {
    const llama_model * model         = loaded.get();
    const char *        chat_template = llama_model_chat_template(model, nullptr);
    const std::string   architecture  = read_text(
        [&](char * b, size_t n) { return llama_model_meta_val_str(model, "general.architecture", b, n); });
    Napi::Object info = Napi::Object::New(env);
    info.Set("description", read_text([&](char * b, size_t n) { return llama_model_desc(model, b, n); }));
    info.Set("architecture", architecture);
    info.Set("trainedContext", llama_model_n_ctx_train(model));
    info.Set("vocabSize", loaded.vocab_size());
    info.Set("layers", llama_model_n_layer(model));
    info.Set("parameters", static_cast<double>(llama_model_n_params(model)));
    info.Set("sizeBytes", static_cast<double>(llama_model_size(model)));
    info.Set("endTokens", end_tokens(env, loaded));
    info.Set("specialTexts", special_texts(env, loaded));
    info.Set("bosText", token_text(env, loaded.vocab(), llama_vocab_bos(loaded.vocab())));
    info.Set("eosText", token_text(env, loaded.vocab(), llama_vocab_eos(loaded.vocab())));
    info.Set("chatTemplate", chat_template == nullptr ? env.Null() : Napi::String::New(env, chat_template));
    info.Set("metadata", metadata_of(env, model));
    return info;
}

}  // namespace lockgate
