#include "sampling.h"

#include <cmath>

namespace lockgate {

namespace {

/** The filters never leave fewer candidates than this. */
constexpr size_t MIN_KEEP = 1;

/** Below it a logit divided by the temperature may overflow; the draw would be greedy anyway. */
constexpr float MIN_TEMPERATURE = 1e-6F;

/** llama.cpp takes 2^32-1 as "a random seed"; a caller who gives it wants the same answer every time. */
uint32_t fixed_seed(uint32_t seed) {
    return seed == LLAMA_DEFAULT_SEED ? LLAMA_DEFAULT_SEED - 1 : seed;
}

bool has_penalties(const SamplingOptions & options) {
    return options.penalty_last_n != 0 &&
           (options.penalty_repeat != 1.0F || options.penalty_freq != 0.0F || options.penalty_present != 0.0F);
}

llama_sampler * make_chain(const SamplingOptions & options, int32_t vocab_size, int32_t context_tokens) {
    const bool greedy = options.temperature < MIN_TEMPERATURE;
    if (greedy && options.logit_bias.empty() && !has_penalties(options)) {
        return nullptr;
    }
    llama_sampler * chain = llama_sampler_chain_init(llama_sampler_chain_default_params());
    const auto      add   = [chain](llama_sampler * sampler) { llama_sampler_chain_add(chain, sampler); };
    if (!options.logit_bias.empty()) {
        add(llama_sampler_init_logit_bias(vocab_size, static_cast<int32_t>(options.logit_bias.size()),
                                          options.logit_bias.data()));
    }
    if (has_penalties(options)) {
        const int32_t last_n = options.penalty_last_n < 0 ? context_tokens : options.penalty_last_n;
        add(llama_sampler_init_penalties(vocab_size, last_n, options.penalty_repeat, options.penalty_freq,
                                         options.penalty_present));
    }
    if (greedy) {
        add(llama_sampler_init_greedy());
        return chain;
    }
    if (options.top_k > 0) {
        add(llama_sampler_init_top_k(options.top_k));
    }
    if (options.top_p < 1.0F) {
        add(llama_sampler_init_top_p(options.top_p, MIN_KEEP));
    }
    if (options.min_p > 0.0F) {
        add(llama_sampler_init_min_p(options.min_p, MIN_KEEP));
    }
    add(llama_sampler_init_temp(options.temperature));
    add(llama_sampler_init_dist(fixed_seed(options.seed)));
    return chain;
}

}  // namespace

Sampler::Sampler(const SamplingOptions & options, int32_t vocab_size, int32_t context_tokens) :
    vocab_size_(vocab_size),
    chain_(make_chain(options, vocab_size, context_tokens)),
    candidates_(chain_ == nullptr ? 0 : static_cast<size_t>(vocab_size)) {}

std::optional<llama_token> Sampler::sample(const float * logits) {
    llama_token greatest = 0;
    for (llama_token token = 0; token < vocab_size_; token++) {
        if (!std::isfinite(logits[token])) {
            return std::nullopt;
        }
        if (logits[token] > logits[greatest]) {
            greatest = token;
        }
    }
    if (chain_ == nullptr) {
        return greatest;
    }
    for (llama_token token = 0; token < vocab_size_; token++) {
        candidates_[static_cast<size_t>(token)] = llama_token_data{token, logits[token], 0.0F};
    }
    llama_token_data_array row{candidates_.data(), candidates_.size(), -1, false};
    llama_sampler_apply(chain_.get(), &row);
    if (row.selected < 0 || static_cast<size_t>(row.selected) >= row.size) {
        return std::nullopt;
    }
    const llama_token chosen = row.data[row.selected].id;
    llama_sampler_accept(chain_.get(), chosen);
    return chosen;
}

}  // namespace lockgate
