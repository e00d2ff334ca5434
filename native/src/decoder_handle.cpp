#include "decoder_handle.h"

#include "args.h"
#include "js_errors.h"
#include "js_events.h"

#include <limits>
#include <utility>

namespace lockgate {

namespace {

constexpr int64_t MAX_INT32 = std::numeric_limits<int32_t>::max();

SamplingOptions read_sampling(const Args & args) {
    SamplingOptions options;
    options.temperature     = args.number("temperature");
    options.top_p           = args.number("topP");
    options.top_k           = static_cast<int32_t>(args.integer("topK", 0, MAX_INT32));
    options.min_p           = args.number("minP");
    options.penalty_repeat  = args.number("penaltyRepeat");
    options.penalty_freq    = args.number("penaltyFreq");
    options.penalty_present = args.number("penaltyPresent");
    options.penalty_last_n  = static_cast<int32_t>(args.integer("penaltyLastN", -1, MAX_INT32));
    options.seed            = static_cast<uint32_t>(args.integer("seed", 0, std::numeric_limits<uint32_t>::max()));
    const Napi::Array pairs = args.array("logitBias");
    for (uint32_t i = 0; i < pairs.Length(); i++) {
        const Napi::Value pair = pairs.Get(i);
        const Args        bias(pair);
        options.logit_bias.push_back(
            llama_logit_bias{static_cast<llama_token>(bias.integer("0", 0, MAX_INT32)), bias.number("1")});
    }
    return options;
}

TurnRequest read_turn(const Napi::Value & value) {
    const Args  args(value);
    TurnRequest request;
    request.turn       = args.integer("turn", 0, MAX_SAFE_INTEGER);
    request.slot       = static_cast<int32_t>(args.integer("slot", 0, MAX_INT32));
    request.prompt     = args.int32s("prompt");
    request.max_tokens = static_cast<int32_t>(args.integer("maxTokens", 1, MAX_INT32));
    request.sampling   = read_sampling(Args(args.object("sampling")));
    request.salt       = args.text("salt");
    return request;
}

std::string not_in_vocabulary(const std::string & name, int32_t token, int32_t vocab_size) {
    return name + " is " + std::to_string(token) + "; token ids go from 0 to " + std::to_string(vocab_size - 1);
}

}  // namespace

std::shared_ptr<DecoderSession> DecoderSession::open(Napi::Env env, std::shared_ptr<LoadedModel> model,
                                                     const DecoderConfig & config, Napi::Function on_events) {
    const int32_t                   vocab_size = model->vocab_size();
    std::shared_ptr<DecoderSession> self(new DecoderSession(config, vocab_size));
    self->decoder_ = std::make_unique<Decoder>(std::move(model), config);
    // The thread's hooks keep the session alive until on_exit or the environment's end.
    self->thread_ = JsThread::start(env, on_events, "lockgate decoder",
                                    {.body = [self](JsThread & thread) {
                                         self->decoder_->loop([&thread] { thread.wake(); });
                                     },
                                     .request_stop = [self] { self->decoder_->request_close(); },
                                     .on_wake = [self](Napi::Env e, Napi::Function f) { self->deliver(e, f); },
                                     .on_exit = [self](Napi::Env e) { self->finished(e); }});
    self->thread_->set_ref(env, false);
    return self;
}

void DecoderSession::check(const TurnRequest & request) const {
    if (request.slot >= config_.slots) {
        throw Failure(ErrorCode::invalid_argument,
                      "slot must be an integer from 0 to " + std::to_string(config_.slots - 1));
    }
    if (request.prompt.empty()) {
        throw Failure(ErrorCode::invalid_argument, "prompt must hold at least one token");
    }
    if (request.prompt.size() >= static_cast<size_t>(config_.context_tokens)) {
        throw Failure(ErrorCode::context_exceeded, "the prompt has " + std::to_string(request.prompt.size()) +
                                                       " tokens; with one to generate a slot holds " +
                                                       std::to_string(config_.context_tokens - 1));
    }
    for (size_t i = 0; i < request.prompt.size(); i++) {
        if (request.prompt[i] < 0 || request.prompt[i] >= vocab_size_) {
            throw Failure(ErrorCode::invalid_argument,
                          not_in_vocabulary("prompt[" + std::to_string(i) + "]", request.prompt[i], vocab_size_));
        }
    }
    for (const llama_logit_bias & bias : request.sampling.logit_bias) {
        if (bias.token >= vocab_size_) {
            throw Failure(ErrorCode::invalid_argument, not_in_vocabulary("sampling.logitBias", bias.token, vocab_size_));
        }
    }
    if (turns_.contains(request.turn)) {
        throw Failure(ErrorCode::invalid_argument, "turn " + std::to_string(request.turn) + " runs already");
    }
    if (slot_busy_[static_cast<size_t>(request.slot)]) {
        throw Failure(ErrorCode::slot_busy, "slot " + std::to_string(request.slot) + " runs another turn");
    }
}

void DecoderSession::run(Napi::Env env, TurnRequest request) {
    if (closing_) {
        throw Failure(ErrorCode::closed, "the decoder was closed");
    }
    check(request);
    slot_busy_[static_cast<size_t>(request.slot)] = true;
    turns_.emplace(request.turn, RunningTurn{request.slot, false});
    thread_->set_ref(env, true);
    decoder_->run(std::move(request));
}

void DecoderSession::stop(int64_t turn) {
    const auto found = turns_.find(turn);
    // Asking twice changes nothing, and must not fill the command queue.
    if (found != turns_.end() && !found->second.stop_sent && !closing_) {
        found->second.stop_sent = true;
        decoder_->stop(found->second.slot, turn);
    }
}

Napi::Promise DecoderSession::close(Napi::Env env) {
    const auto deferred = Napi::Promise::Deferred::New(env);
    if (thread_ == nullptr) {
        deferred.Resolve(env.Undefined());
        return deferred.Promise();
    }
    close_waiters_.push_back(deferred);
    closing_ = true;
    thread_->set_ref(env, true);
    decoder_->request_close();
    return deferred.Promise();
}

void DecoderSession::abandon() {
    abandoned_ = true;
    if (thread_ != nullptr && turns_.empty()) {
        decoder_->request_close();
    }
}

void DecoderSession::deliver(Napi::Env env, Napi::Function on_events) {
    const std::vector<Event> events = decoder_->take_events();
    // Slots are free before the caller hears of it, so that it may start the next turn at once.
    for (const Event & event : events) {
        if (event.ends_turn()) {
            turns_.erase(event.turn);
            slot_busy_[static_cast<size_t>(event.slot)] = false;
        }
    }
    if (!events.empty()) {
        on_events.Call({to_js_events(env, events)});
    }
    if (turns_.empty() && thread_ != nullptr && !closing_) {
        thread_->set_ref(env, false);
        if (abandoned_) {
            decoder_->request_close();
        }
    }
}

void DecoderSession::finished(Napi::Env env) {
    thread_.reset();
    for (const Napi::Promise::Deferred & waiter : std::exchange(close_waiters_, {})) {
        waiter.Resolve(env.Undefined());
    }
}

Napi::Function DecoderHandle::define(Napi::Env env) {
    return DefineClass(env, "DecoderHandle",
                       {InstanceMethod<&DecoderHandle::run>("run"), InstanceMethod<&DecoderHandle::stop>("stop"),
                        InstanceMethod<&DecoderHandle::close>("close")});
}

DecoderHandle::DecoderHandle(const Napi::CallbackInfo & info) : Napi::ObjectWrap<DecoderHandle>(info) {
    if (!info[0].IsExternal()) {
        throw to_js_error(info.Env(), ErrorCode::invalid_argument, "decoders are made by createDecoder");
    }
    session_ = *info[0].As<Napi::External<std::shared_ptr<DecoderSession>>>().Data();
}

DecoderHandle::~DecoderHandle() {
    if (session_ != nullptr) {
        session_->abandon();
    }
}

void DecoderHandle::run(const Napi::CallbackInfo & info) {
    guarded(info.Env(), [&] { session_->run(info.Env(), read_turn(info[0])); });
}

void DecoderHandle::stop(const Napi::CallbackInfo & info) {
    guarded(info.Env(), [&] {
        if (!info[0].IsNumber()) {
            throw Failure(ErrorCode::invalid_argument, "turn must be a number");
        }
        session_->stop(info[0].As<Napi::Number>().Int64Value());
    });
}

Napi::Value DecoderHandle::close(const Napi::CallbackInfo & info) {
    return session_->close(info.Env());
}

}  // namespace lockgate
