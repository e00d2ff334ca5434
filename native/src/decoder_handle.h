// The JavaScript object of a decoder: starts and ends its thread, guards its state, delivers its events.
// All of it runs on the JavaScript thread; decoder.h has the other half.
#pragma once

#include "decoder.h"
#include "js_thread.h"

#include <napi.h>

#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

namespace lockgate {

/** Outlives the JavaScript object until the thread has ended. */
class DecoderSession {
  public:
    /** Throws Failure as Decoder's constructor does. */
    static std::shared_ptr<DecoderSession> open(Napi::Env env, std::shared_ptr<LoadedModel> model,
                                                const DecoderConfig & config, Napi::Function on_events);

    const DecoderConfig & config() const { return config_; }

    /** Throws Failure: closed, invalid_argument, slot_busy, context_exceeded. */
    void          run(Napi::Env env, TurnRequest request);
    void          stop(int64_t turn);
    Napi::Promise close(Napi::Env env);
    /** Nobody can close it any more: it closes itself once its turns have ended. */
    void          abandon();

  private:
    struct RunningTurn {
        int32_t slot;
        bool    stop_sent;
    };

    DecoderSession(const DecoderConfig & config, int32_t vocab_size) :
        config_(config), vocab_size_(vocab_size), slot_busy_(static_cast<size_t>(config.slots), false) {}

    void check(const TurnRequest & request) const;
    void deliver(Napi::Env env, Napi::Function on_events);
    void finished(Napi::Env env);

    DecoderConfig                            config_;
    int32_t                                  vocab_size_;
    std::unique_ptr<Decoder>                 decoder_;
    std::shared_ptr<JsThread>                thread_;  // null once it has ended
    std::unordered_map<int64_t, RunningTurn> turns_;   // at most one a slot
    std::vector<bool>                        slot_busy_;
    bool                                     closing_   = false;
    bool                                     abandoned_ = false;
    std::vector<Napi::Promise::Deferred>     close_waiters_;
};

class DecoderHandle : public Napi::ObjectWrap<DecoderHandle> {
  public:
    static Napi::Function define(Napi::Env env);

    explicit DecoderHandle(const Napi::CallbackInfo & info);
    ~DecoderHandle() override;

  private:
    void        run(const Napi::CallbackInfo & info);
    void        stop(const Napi::CallbackInfo & info);
    Napi::Value close(const Napi::CallbackInfo & info);

    std::shared_ptr<DecoderSession> session_;
};

}  // namespace lockgate
