// One sequence of the KV cache and the turn that runs on it. Touched by the decode thread alone.
// Knows what the cache holds, but does not touch the cache: decoder.cpp does.
#pragma once

#include "scheduler.h"
#include "turn.h"

#include <chrono>
#include <memory>
#include <optional>

namespace lockgate {

using Clock = std::chrono::steady_clock;

class Slot {
  public:
    /**
     * Prompt tokens that the cache could give to this request: the longest common prefix under the same salt, but never
     * the whole prompt, for its last token must be computed to get logits.
     */
    int32_t reusable(const TurnRequest & request) const;

    /** Starts a turn of which `reused` tokens are in the cache already (the rest of the old ones was removed). */
    void begin(TurnRequest request, int32_t reused, std::unique_ptr<Sampler> sampler, Clock::time_point now);

    Phase            phase() const { return phase_; }
    bool             runs(int64_t turn) const { return phase_ != Phase::idle && request_.turn == turn; }
    int64_t          turn() const { return request_.turn; }
    Sampler &        sampler() { return *sampler_; }
    int32_t          cached_tokens() const { return static_cast<int32_t>(cached_.size()); }
    int32_t          prompt_tokens_left() const;
    /** Token that the next step must compute: of the prompt at `position`, or the one sampled last. */
    llama_token      prompt_token(int32_t position) const { return request_.prompt[static_cast<size_t>(position)]; }
    llama_token      pending_token() const { return pending_; }

    /** The next `count` prompt tokens were computed. Gives the progress to report. */
    PrefillEvent prefilled(int32_t count, Clock::time_point now);
    /** The pending token was computed. */
    void decoded() { cached_.push_back(pending_); }
    /** A token was sampled. Gives how the turn finishes with it, if it does. */
    std::optional<Finish> sampled(llama_token token, bool ends, int32_t context_tokens, Clock::time_point now);

    /** Ends the turn; the cache stays for the next one. */
    TurnStatistics end(Finish finish, Clock::time_point now);
    /** Ends the turn if one runs, and forgets the cache. */
    void forget();

  private:
    Phase                    phase_ = Phase::idle;
    std::vector<llama_token> cached_;  // tokens whose keys and values are in the cache, in order
    std::string              cached_salt_;
    TurnRequest              request_;
    std::unique_ptr<Sampler> sampler_;
    llama_token              pending_ = 0;
    TurnStatistics           statistics_;
    Clock::time_point        started_at_;
    Clock::time_point        chunk_started_at_;
    Clock::time_point        first_token_at_;
};

}  // namespace lockgate
