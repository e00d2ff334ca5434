// The choice of the next token from one row of logits. One Sampler a turn.
#pragma once

#include <llama.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace lockgate {

/** Neutral by default; ranges are checked in JavaScript (lib/checks.js). */
struct SamplingOptions {
    float    temperature     = 0.0F;  // 0 = greedy
    float    top_p           = 1.0F;
    int32_t  top_k           = 0;
    float    min_p           = 0.0F;
    float    penalty_repeat  = 1.0F;
    float    penalty_freq    = 0.0F;
    float    penalty_present = 0.0F;
    int32_t  penalty_last_n  = 64;  // -1 = the whole context
    uint32_t seed            = 0;
    std::vector<llama_logit_bias> logit_bias;
};

/**
 * A chain of llama.cpp's samplers: bias, penalties, top-k, top-p, min-p, temperature, then the draw (or the greatest).
 * Penalties count the tokens that this turn sampled, not those of its prompt, as OpenAI defines them.
 */
class Sampler {
  public:
    Sampler(const SamplingOptions & options, int32_t vocab_size, int32_t context_tokens);

    /** The chosen token, or nothing when a logit is NaN or infinite. `logits` has vocab_size floats. */
    std::optional<llama_token> sample(const float * logits);

  private:
    struct FreeChain {
        void operator()(llama_sampler * chain) const { llama_sampler_free(chain); }
    };

    int32_t                                   vocab_size_;
    std::unique_ptr<llama_sampler, FreeChain> chain_;  // null: plain greedy
    std::vector<llama_token_data>             candidates_;
};

}  // namespace lockgate
