// Which tokens go into the next step. Pure: no llama.cpp, no clock, no threads.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace lockgate {

enum class Phase { idle, prefill, decode };

/** What the scheduler must know of a slot. */
struct SlotLoad {
    Phase   phase               = Phase::idle;
    int32_t prompt_tokens_left  = 0;
};

struct StepPlan {
    std::vector<int32_t> decoding;             // slots that get one token each
    int32_t              prefill_slot   = -1;  // the slot whose prompt goes on, or -1
    int32_t              prefill_tokens = 0;

    bool empty() const { return decoding.empty() && prefill_slot < 0; }
};

/**
 * Every decoding slot gets its token, and one prompt goes on by at most `chunk_tokens`: so a long prompt never stops the
 * others' tokens. Prompts take turns: the first prefilling slot at or after `prefill_from` (cyclic) is served.
 * `batch_tokens` bounds the whole step, for llama_decode() aborts the process beyond it; it is at least the slots' number.
 */
StepPlan plan_step(std::span<const SlotLoad> slots, int32_t batch_tokens, int32_t chunk_tokens, int32_t prefill_from);

}  // namespace lockgate
