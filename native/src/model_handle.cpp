#include "model_handle.h"

#include "addon_data.h"
#include "args.h"
#include "decoder_handle.h"
#include "js_errors.h"
#include "model_info.h"
#include "model_workers.h"
#include "tokenizer.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

namespace lockgate {

namespace {

/** Sequences of one context. llama.cpp takes more; beyond this the batch gains nothing on the devices we know. */
constexpr int32_t MAX_SLOTS = 64;
/** ggml's own bound (GGML_MAX_N_THREADS). */
constexpr int32_t MAX_THREADS = 512;
/** One token of prompt and one of answer. */
constexpr int32_t MIN_CONTEXT_TOKENS = 2;

constexpr std::array<std::pair<const char *, ggml_type>, 5> KV_TYPES{{
    {"f32", GGML_TYPE_F32},
    {"f16", GGML_TYPE_F16},
    {"bf16", GGML_TYPE_BF16},
    {"q8_0", GGML_TYPE_Q8_0},
    {"q4_0", GGML_TYPE_Q4_0},
}};

ggml_type kv_type_of(const std::string & name) {
    for (const auto & [known, type] : KV_TYPES) {
        if (name == known) {
            return type;
        }
    }
    throw Failure(ErrorCode::invalid_argument, "kvType must be one of f32, f16, bf16, q8_0, q4_0");
}

/** Absent fields take their defaults here, for they depend on the model. */
DecoderConfig read_config(const Napi::Value & value, const LoadedModel & model) {
    const Args    args(value);
    const int32_t trained = std::max(llama_model_n_ctx_train(model.get()), MIN_CONTEXT_TOKENS);
    DecoderConfig config;
    config.slots          = static_cast<int32_t>(args.integer("slots", 1, MAX_SLOTS));
    config.threads        = static_cast<int32_t>(args.integer("threads", 1, MAX_THREADS));
    config.kv_type        = kv_type_of(args.text("kvType"));
    config.context_tokens = args.has("contextTokens")
                                ? static_cast<int32_t>(args.integer("contextTokens", MIN_CONTEXT_TOKENS, trained))
                                : trained;
    constexpr int32_t default_chunk = 256;
    config.prefill_chunk_tokens =
        args.has("prefillChunkTokens")
            ? static_cast<int32_t>(args.integer("prefillChunkTokens", 1, config.context_tokens))
            : std::min(default_chunk, config.context_tokens);
    return config;
}

TokenizeRequest read_tokenize_request(const Napi::Value & value) {
    const Args args(value);
    return {args.text("text"), args.flag("addSpecial"), args.flag("parseSpecial")};
}

}  // namespace

Napi::Function ModelHandle::define(Napi::Env env) {
    return DefineClass(env, "ModelHandle",
                       {InstanceMethod<&ModelHandle::info>("info"), InstanceMethod<&ModelHandle::tokenize>("tokenize"),
                        InstanceMethod<&ModelHandle::tokenize_sync>("tokenizeSync"),
                        InstanceMethod<&ModelHandle::pieces>("pieces"),
                        InstanceMethod<&ModelHandle::create_decoder>("createDecoder"),
                        InstanceMethod<&ModelHandle::close>("close")});
}

Napi::Object ModelHandle::create(Napi::Env env, std::shared_ptr<LoadedModel> model) {
    return env.GetInstanceData<AddonData>()->model_class.New(
        {Napi::External<std::shared_ptr<LoadedModel>>::New(env, &model)});
}

ModelHandle::ModelHandle(const Napi::CallbackInfo & info) : Napi::ObjectWrap<ModelHandle>(info) {
    if (!info[0].IsExternal()) {
        throw to_js_error(info.Env(), ErrorCode::invalid_argument, "models are made by loadModel");
    }
    model_ = *info[0].As<Napi::External<std::shared_ptr<LoadedModel>>>().Data();
}

const std::shared_ptr<LoadedModel> & ModelHandle::open_model() const {
    if (model_ == nullptr) {
        throw Failure(ErrorCode::closed, "the model was closed");
    }
    return model_;
}

Napi::Value ModelHandle::info(const Napi::CallbackInfo & info) {
    return guarded(info.Env(), [&]() -> Napi::Value { return to_js_model_info(info.Env(), *open_model()); });
}

Napi::Value ModelHandle::tokenize(const Napi::CallbackInfo & info) {
    return guarded(info.Env(), [&]() -> Napi::Value {
        return tokenize_later(info.Env(), open_model(), read_tokenize_request(info[0]));
    });
}

Napi::Value ModelHandle::tokenize_sync(const Napi::CallbackInfo & info) {
    return guarded(info.Env(), [&]() -> Napi::Value {
        const TokenizeRequest request = read_tokenize_request(info[0]);
        return to_js_tokens(info.Env(), tokenize_now(*open_model(), request));
    });
}

Napi::Value ModelHandle::pieces(const Napi::CallbackInfo & info) {
    return guarded(info.Env(), [&]() -> Napi::Value {
        const Napi::Env env    = info.Env();
        const Pieces    pieces = all_pieces(open_model()->vocab());
        auto            offsets = Napi::Uint32Array::New(env, pieces.offsets.size());
        auto            bytes   = Napi::Uint8Array::New(env, pieces.bytes.size());
        std::copy(pieces.offsets.begin(), pieces.offsets.end(), offsets.Data());
        std::copy(pieces.bytes.begin(), pieces.bytes.end(), bytes.Data());
        Napi::Object table = Napi::Object::New(env);
        table.Set("offsets", offsets);
        table.Set("bytes", bytes);
        return table;
    });
}

Napi::Value ModelHandle::create_decoder(const Napi::CallbackInfo & info) {
    return guarded(info.Env(), [&]() -> Napi::Value {
        const Napi::Env env   = info.Env();
        const auto &    model = open_model();
        if (model->vocab_only()) {
            throw Failure(ErrorCode::invalid_argument, "the model was loaded with vocabOnly");
        }
        const DecoderConfig config  = read_config(info[0], *model);
        auto                session = DecoderSession::open(env, model, config, function_argument(info, 1));
        Napi::Object        result  = Napi::Object::New(env);
        result.Set("handle", env.GetInstanceData<AddonData>()->decoder_class.New(
                                 {Napi::External<std::shared_ptr<DecoderSession>>::New(env, &session)}));
        result.Set("slots", config.slots);
        result.Set("contextTokens", config.context_tokens);
        return result;
    });
}

Napi::Value ModelHandle::close(const Napi::CallbackInfo & info) {
    return release_later(info.Env(), std::exchange(model_, nullptr));
}

}  // namespace lockgate
