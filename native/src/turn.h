// What a turn is asked and what it reports: plain data, shared by the decode thread and the JavaScript side.
#pragma once

#include "errors.h"
#include "sampling.h"

#include <llama.h>

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace lockgate {

struct TurnRequest {
    int64_t                  turn = 0;
    int32_t                  slot = 0;
    std::vector<llama_token> prompt;
    int32_t                  max_tokens = 1;
    SamplingOptions          sampling;
    std::string              salt;
};

enum class Finish { stop, length, cancel, nonfinite };

struct TurnStatistics {
    int32_t generated     = 0;
    int32_t prompt_tokens = 0;
    double  prompt_ms     = 0;
    double  decode_ms     = 0;
    Finish  finish        = Finish::stop;
    int32_t reused        = 0;
    int32_t prompt_read   = 0;
};

struct ResumeEvent {
    int32_t reused;
};

struct PrefillEvent {
    int32_t position;
    int32_t total;
    double  ms;
    double  tokens_per_second;
};

struct TokenEvent {
    llama_token token;
};

struct DoneEvent {
    TurnStatistics statistics;
};

struct ErrorEvent {
    ErrorCode   code;
    std::string message;
};

/** One of index.d.ts's DecoderEvent. */
struct Event {
    int64_t                                                                    turn;
    int32_t                                                                    slot;
    std::variant<ResumeEvent, PrefillEvent, TokenEvent, DoneEvent, ErrorEvent> body;

    /** True for the last event of its turn. */
    bool ends_turn() const { return std::holds_alternative<DoneEvent>(body) || std::holds_alternative<ErrorEvent>(body); }
};

}  // namespace lockgate
