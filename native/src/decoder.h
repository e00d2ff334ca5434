// The decode loop: one llama_context whose sequences are the slots, driven by one thread with continuous batching.
// Knows no JavaScript: commands come in through run(), stop() and request_close(), events go out through take_events()
// after a wake.
//
// Who owns what: the context, the batch and the slots belong to the thread that runs loop(); commands and events are the
// only shared data, under mutex_.
#pragma once

#include "batch.h"
#include "loaded_model.h"
#include "slot.h"

#include <condition_variable>
#include <functional>
#include <mutex>
#include <variant>

namespace lockgate {

struct DecoderConfig {
    int32_t   slots                = 1;
    int32_t   context_tokens       = 0;
    ggml_type kv_type              = GGML_TYPE_F16;
    int32_t   threads              = 1;
    int32_t   prefill_chunk_tokens = 0;
};

class Decoder {
  public:
    /**
     * Throws Failure: out_of_memory, invalid_argument (a KV type that the model cannot have), not_a_model (not a
     * decoder-only model).
     */
    Decoder(std::shared_ptr<LoadedModel> model, const DecoderConfig & config);
    Decoder(const Decoder &) = delete;
    Decoder & operator=(const Decoder &) = delete;

    /**
     * The slot is idle and its last `done` was taken (the caller sees to it), so at most `slots` runs and as many stops
     * wait here, and the events that wait are bounded by the turns' own lengths.
     */
    void run(TurnRequest request);
    void stop(int32_t slot, int64_t turn);
    /** Ends all turns with `cancel`; loop() returns after that. */
    void request_close();
    std::vector<Event> take_events();

    /**
     * The thread's body; calls `wake` when there are events to take: at once, but for tokens that follow others within a
     * millisecond, which are handed over together. The KV cache and this decoder's share of the model are freed when it
     * returns.
     */
    void loop(std::function<void()> wake);

  private:
    struct StopCommand {
        int32_t slot;
        int64_t turn;
    };
    using Command = std::variant<TurnRequest, StopCommand>;

    /** A slot's part in the batch under way. */
    struct Share {
        int32_t slot;
        int32_t prompt_tokens;  // 0: the pending token
        int32_t logits_row;     // -1: none asked for
    };

    bool               any_turn() const;
    bool               take_commands(std::vector<Command> & commands);
    void               begin_turn(TurnRequest request);
    void               step();
    std::vector<Share> fill_batch(const StepPlan & plan);
    void               apply(const Share & share);
    void               end_turn(int32_t slot, Finish finish);
    void               fail(const std::vector<Share> & shares, ErrorCode code, const std::string & message);
    void               clear_cache(int32_t slot);
    void               emit(int32_t slot, int64_t turn, decltype(Event::body) body);
    bool               can_gather() const;
    void               publish();

    struct FreeContext {
        void operator()(llama_context * context) const { llama_free(context); }
    };

    DecoderConfig                               config_;
    std::shared_ptr<LoadedModel>                model_;
    std::unique_ptr<llama_context, FreeContext> context_;
    std::unique_ptr<Batch>                      batch_;
    std::vector<Slot>                           slots_;
    int32_t                                     next_prefill_slot_ = 0;
    std::vector<Event>                          unpublished_;
    Clock::time_point                           published_at_;
    std::function<void()>                       wake_;

    std::mutex              mutex_;
    std::condition_variable work_;
    std::vector<Command>    commands_;
    std::vector<Event>      events_;
    bool                    closing_ = false;
};

}  // namespace lockgate
