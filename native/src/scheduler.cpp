#include "scheduler.h"

#include <algorithm>

namespace lockgate {

StepPlan plan_step(std::span<const SlotLoad> slots, int32_t batch_tokens, int32_t chunk_tokens, int32_t prefill_from) {
    StepPlan   plan;
    const auto n_slots = static_cast<int32_t>(slots.size());
    for (int32_t slot = 0; slot < n_slots; slot++) {
        if (slots[static_cast<size_t>(slot)].phase == Phase::decode) {
            plan.decoding.push_back(slot);
        }
    }
    const int32_t room = std::min(chunk_tokens, batch_tokens - static_cast<int32_t>(plan.decoding.size()));
    for (int32_t step = 0; step < n_slots && room > 0; step++) {
        const int32_t    slot = (prefill_from + step) % n_slots;
        const SlotLoad & load = slots[static_cast<size_t>(slot)];
        if (load.phase == Phase::prefill) {
            plan.prefill_slot   = slot;
            plan.prefill_tokens = std::min(room, load.prompt_tokens_left);
            break;
        }
    }
    return plan;
}

}  // namespace lockgate
