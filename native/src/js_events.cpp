#include "js_events.h"

namespace lockgate {

namespace {

const char * finish_name(Finish finish) {
    switch (finish) {
        case Finish::stop:      return "stop";
        case Finish::length:    return "length";
        case Finish::cancel:    return "cancel";
        case Finish::nonfinite: return "nonfinite";
    }
    return "stop";
}

/** Fills the event's object with what its kind has beyond turn and slot. */
struct FillEvent {
    Napi::Env    env;
    Napi::Object target;

    void operator()(const ResumeEvent & event) {
        target.Set("type", "resume");
        target.Set("reused", event.reused);
    }
    void operator()(const PrefillEvent & event) {
        target.Set("type", "prefill");
        target.Set("position", event.position);
        target.Set("total", event.total);
        target.Set("ms", event.ms);
        target.Set("tokensPerSecond", event.tokens_per_second);
    }
    void operator()(const TokenEvent & event) {
        target.Set("type", "token");
        target.Set("token", event.token);
    }
    void operator()(const DoneEvent & event) {
        const TurnStatistics & from       = event.statistics;
        Napi::Object           statistics = Napi::Object::New(env);
        statistics.Set("generated", from.generated);
        statistics.Set("promptTokens", from.prompt_tokens);
        statistics.Set("promptMs", from.prompt_ms);
        statistics.Set("decodeMs", from.decode_ms);
        statistics.Set("finish", finish_name(from.finish));
        statistics.Set("reused", from.reused);
        statistics.Set("promptRead", from.prompt_read);
        target.Set("type", "done");
        target.Set("statistics", statistics);
    }
    void operator()(const ErrorEvent & event) {
        target.Set("type", "error");
        target.Set("code", error_name(event.code));
        target.Set("message", event.message);
    }
};

}  // namespace

Napi::Array to_js_events(Napi::Env env, const std::vector<Event> & events) {
    Napi::Array array = Napi::Array::New(env, events.size());
    for (size_t i = 0; i < events.size(); i++) {
        const Napi::HandleScope scope(env);
        const Event &           event  = events[i];
        Napi::Object            object = Napi::Object::New(env);
        object.Set("turn", static_cast<double>(event.turn));
        object.Set("slot", event.slot);
        std::visit(FillEvent{env, object}, event.body);
        array.Set(static_cast<uint32_t>(i), object);
    }
    return array;
}

}  // namespace lockgate
