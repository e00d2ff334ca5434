#include "slot.h"

#include <algorithm>

namespace lockgate {

namespace {

double ms_between(Clock::time_point from, Clock::time_point to) {
    return std::chrono::duration<double, std::milli>(to - from).count();
}

/** Keeps a rate finite where the clock is too coarse to see the chunk. */
constexpr double MIN_CHUNK_MS = 0.001;

}  // namespace

int32_t Slot::reusable(const TurnRequest & request) const {
    if (request.salt != cached_salt_) {
        return 0;
    }
    const size_t most = std::min(cached_.size(), request.prompt.size() - 1);
    size_t       same = 0;
    while (same < most && cached_[same] == request.prompt[same]) {
        same++;
    }
    return static_cast<int32_t>(same);
}

void Slot::begin(TurnRequest request, int32_t reused, std::unique_ptr<Sampler> sampler, Clock::time_point now) {
    cached_.resize(static_cast<size_t>(reused));
    cached_salt_ = request.salt;
    request_     = std::move(request);
    sampler_     = std::move(sampler);
    statistics_  = TurnStatistics{};
    statistics_.prompt_tokens = static_cast<int32_t>(request_.prompt.size());
    statistics_.reused        = reused;
    started_at_ = chunk_started_at_ = now;
    phase_ = Phase::prefill;
}

int32_t Slot::prompt_tokens_left() const {
    return phase_ == Phase::prefill ? statistics_.prompt_tokens - cached_tokens() : 0;
}

PrefillEvent Slot::prefilled(int32_t count, Clock::time_point now) {
    const auto first = request_.prompt.begin() + cached_tokens();
    cached_.insert(cached_.end(), first, first + count);
    statistics_.prompt_read += count;
    const double ms   = ms_between(chunk_started_at_, now);
    chunk_started_at_ = now;
    return PrefillEvent{cached_tokens(), statistics_.prompt_tokens, ms, count * 1000.0 / std::max(ms, MIN_CHUNK_MS)};
}

std::optional<Finish> Slot::sampled(llama_token token, bool ends, int32_t context_tokens, Clock::time_point now) {
    if (statistics_.generated == 0) {
        first_token_at_ = now;
        phase_          = Phase::decode;
    }
    pending_ = token;
    statistics_.generated++;
    if (ends) {
        return Finish::stop;
    }
    const bool full = statistics_.prompt_tokens + statistics_.generated >= context_tokens;
    if (full || statistics_.generated >= request_.max_tokens) {
        return Finish::length;
    }
    return std::nullopt;
}

TurnStatistics Slot::end(Finish finish, Clock::time_point now) {
    const bool decoding   = phase_ == Phase::decode;
    statistics_.prompt_ms = ms_between(started_at_, decoding ? first_token_at_ : now);
    statistics_.decode_ms = decoding ? ms_between(first_token_at_, now) : 0;
    statistics_.finish    = finish;
    phase_                = Phase::idle;
    sampler_.reset();
    return statistics_;
}

void Slot::forget() {
    cached_.clear();
    cached_salt_.clear();
    sampler_.reset();
    phase_ = Phase::idle;
}

}  // namespace lockgate
