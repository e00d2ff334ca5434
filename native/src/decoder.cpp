#include "decoder.h"

#include "errors.h"
#include "log.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace lockgate {

namespace {

/** Tokens that llama.cpp computes at once: bounds its compute buffers. Larger batches are cut by llama.cpp itself. */
constexpr int32_t MAX_UBATCH_TOKENS = 512;
/** llama.cpp rounds a sequence's cells up to this. */
constexpr int32_t CELL_ROUNDING = 256;
/** A token waits so long for others, and for the end of the step under way then, before JavaScript is woken for it. */
constexpr auto GATHER_TIME = std::chrono::microseconds(1000);

llama_context * make_context(const LoadedModel & model, const DecoderConfig & config) {
    if (llama_model_has_encoder(model.get()) || !llama_model_has_decoder(model.get())) {
        throw Failure(ErrorCode::not_a_model, "the model is not a decoder-only language model");
    }
    const int32_t        cells  = (config.context_tokens + CELL_ROUNDING - 1) / CELL_ROUNDING * CELL_ROUNDING;
    const auto           slots  = static_cast<uint32_t>(config.slots);
    llama_context_params params = llama_context_default_params();
    params.n_ctx           = static_cast<uint32_t>(cells) * slots;
    params.n_seq_max       = slots;
    params.kv_unified      = false;  // every sequence has its own cells, so no slot can take another's room
    params.n_batch         = static_cast<uint32_t>(config.prefill_chunk_tokens) + slots;
    params.n_ubatch        = std::min<uint32_t>(params.n_batch, MAX_UBATCH_TOKENS);
    params.n_outputs_max   = slots;  // one row of logits a slot: a row is as wide as the vocabulary
    params.n_threads       = config.threads;
    params.n_threads_batch = config.threads;
    params.type_k          = config.kv_type;
    params.type_v          = config.kv_type;
    params.no_perf         = true;

    const LogCapture capture;
    llama_context *  context = llama_init_from_model(model.get(), params);
    if (context == nullptr) {
        const std::string reason = capture.reason("llama.cpp gave no reason");
        throw Failure(speaks_of_memory(reason) ? ErrorCode::out_of_memory : ErrorCode::invalid_argument,
                      "cannot make a KV cache of " + std::to_string(config.slots) + " x " +
                          std::to_string(config.context_tokens) + " tokens: " + reason);
    }
    return context;
}

}  // namespace

Decoder::Decoder(std::shared_ptr<LoadedModel> model, const DecoderConfig & config) :
    config_(config),
    model_(std::move(model)),
    context_(make_context(*model_, config)),
    batch_(std::make_unique<Batch>(static_cast<int32_t>(llama_n_batch(context_.get())))),
    slots_(static_cast<size_t>(config.slots)) {
    if (llama_get_memory(context_.get()) == nullptr) {
        throw Failure(ErrorCode::not_a_model, "the model keeps no KV cache, so it cannot generate");
    }
}

void Decoder::run(TurnRequest request) {
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        commands_.emplace_back(std::move(request));
    }
    work_.notify_one();
}

void Decoder::stop(int32_t slot, int64_t turn) {
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        commands_.emplace_back(StopCommand{slot, turn});
    }
    work_.notify_one();
}

void Decoder::request_close() {
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        closing_ = true;
    }
    work_.notify_one();
}

std::vector<Event> Decoder::take_events() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return std::exchange(events_, {});
}

void Decoder::loop(std::function<void()> wake) {
    wake_ = std::move(wake);
    std::vector<Command> commands;
    bool                 open = true;
    while (open) {
        open = take_commands(commands);
        for (Command & command : commands) {
            if (auto * request = std::get_if<TurnRequest>(&command)) {
                begin_turn(std::move(*request));
                continue;
            }
            const auto & stop = std::get<StopCommand>(command);
            if (slots_[static_cast<size_t>(stop.slot)].runs(stop.turn)) {
                end_turn(stop.slot, Finish::cancel);
            }
        }
        commands.clear();
        if (open && any_turn()) {
            step();
        }
        if (!can_gather()) {
            publish();
        }
    }
    for (int32_t slot = 0; slot < config_.slots; slot++) {
        if (slots_[static_cast<size_t>(slot)].phase() != Phase::idle) {
            end_turn(slot, Finish::cancel);
        }
    }
    publish();
    batch_.reset();
    context_.reset();
    model_.reset();
}

bool Decoder::any_turn() const {
    return std::any_of(slots_.begin(), slots_.end(), [](const Slot & slot) { return slot.phase() != Phase::idle; });
}

/** Waits for a command where no turn runs. False: the decoder closes. */
bool Decoder::take_commands(std::vector<Command> & commands) {
    const bool                   busy = any_turn();
    std::unique_lock<std::mutex> lock(mutex_);
    work_.wait(lock, [&] { return busy || closing_ || !commands_.empty(); });
    commands.swap(commands_);
    return !closing_;
}

void Decoder::begin_turn(TurnRequest request) {
    const int32_t slot_id = request.slot;
    const int64_t turn    = request.turn;
    Slot &        slot    = slots_[static_cast<size_t>(slot_id)];
    try {
        auto    sampler = std::make_unique<Sampler>(request.sampling, model_->vocab_size(), config_.context_tokens);
        int32_t reused  = slot.reusable(request);
        // Models with a recurrent state cannot drop a part of it: then the whole sequence goes.
        if (reused == 0 || !llama_memory_seq_rm(llama_get_memory(context_.get()), slot_id, reused, -1)) {
            clear_cache(slot_id);
            reused = 0;
        }
        slot.begin(std::move(request), reused, std::move(sampler), Clock::now());
        if (reused > 0) {
            emit(slot_id, turn, ResumeEvent{reused});
        }
    } catch (...) {
        const Failure failure = current_failure();
        clear_cache(slot_id);
        emit(slot_id, turn, ErrorEvent{failure.code, failure.what()});
    }
}

void Decoder::step() {
    std::vector<SlotLoad> loads(slots_.size());
    std::transform(slots_.begin(), slots_.end(), loads.begin(),
                   [](const Slot & slot) { return SlotLoad{slot.phase(), slot.prompt_tokens_left()}; });
    const auto     batch_tokens = static_cast<int32_t>(llama_n_batch(context_.get()));
    const StepPlan plan = plan_step(loads, batch_tokens, config_.prefill_chunk_tokens, next_prefill_slot_);
    if (plan.prefill_slot >= 0) {
        next_prefill_slot_ = (plan.prefill_slot + 1) % config_.slots;
    }
    const std::vector<Share> shares = fill_batch(plan);
    if (plan.prefill_slot >= 0) {
        publish();  // a step that reads prompt may take long: nothing waits for its end
    }
    try {
        const LogCapture capture;
        const int32_t    result = llama_decode(context_.get(), batch_->get());
        if (result != 0) {
            fail(shares, ErrorCode::decode,
                 "llama_decode returned " + std::to_string(result) + ": " + capture.reason("no reason given"));
            return;
        }
        for (const Share & share : shares) {
            apply(share);
        }
    } catch (...) {
        const Failure failure = current_failure();
        fail(shares, failure.code, failure.what());
    }
}

std::vector<Decoder::Share> Decoder::fill_batch(const StepPlan & plan) {
    std::vector<Share> shares;
    batch_->clear();
    for (const int32_t slot_id : plan.decoding) {
        const Slot &  slot = slots_[static_cast<size_t>(slot_id)];
        const int32_t row  = batch_->add(slot.pending_token(), slot.cached_tokens(), slot_id, true);
        shares.push_back(Share{slot_id, 0, row});
    }
    if (plan.prefill_slot >= 0) {
        const Slot &  slot  = slots_[static_cast<size_t>(plan.prefill_slot)];
        const int32_t first = slot.cached_tokens();
        const bool    whole = plan.prefill_tokens == slot.prompt_tokens_left();
        int32_t       row   = -1;
        for (int32_t i = 0; i < plan.prefill_tokens; i++) {
            const bool last = whole && i == plan.prefill_tokens - 1;
            row = batch_->add(slot.prompt_token(first + i), first + i, plan.prefill_slot, last);
        }
        shares.push_back(Share{plan.prefill_slot, plan.prefill_tokens, whole ? row : -1});
    }
    return shares;
}

/** Takes one slot's result of the batch that was computed. */
void Decoder::apply(const Share & share) {
    Slot & slot = slots_[static_cast<size_t>(share.slot)];
    if (share.prompt_tokens > 0) {
        emit(share.slot, slot.turn(), slot.prefilled(share.prompt_tokens, Clock::now()));
    } else {
        slot.decoded();
    }
    if (share.logits_row < 0) {
        return;
    }
    const float * logits = llama_get_logits_ith(context_.get(), share.logits_row);
    if (logits == nullptr) {
        throw Failure(ErrorCode::decode, "llama.cpp gave no logits");
    }
    const std::optional<llama_token> token = slot.sampler().sample(logits);
    if (!token.has_value()) {
        end_turn(share.slot, Finish::nonfinite);
        clear_cache(share.slot);
        return;
    }
    const bool ends   = llama_vocab_is_eog(model_->vocab(), *token);
    const auto finish = slot.sampled(*token, ends, config_.context_tokens, Clock::now());
    emit(share.slot, slot.turn(), TokenEvent{*token});
    if (finish.has_value()) {
        end_turn(share.slot, *finish);
    }
}

void Decoder::end_turn(int32_t slot_id, Finish finish) {
    Slot &        slot = slots_[static_cast<size_t>(slot_id)];
    const int64_t turn = slot.turn();
    emit(slot_id, turn, DoneEvent{slot.end(finish, Clock::now())});
}

/** Ends the turns that still run among these, each with an error. Their caches are of unknown content, so they go too. */
void Decoder::fail(const std::vector<Share> & shares, ErrorCode code, const std::string & message) {
    for (const Share & share : shares) {
        const Slot & slot = slots_[static_cast<size_t>(share.slot)];
        if (slot.phase() != Phase::idle) {
            emit(share.slot, slot.turn(), ErrorEvent{code, message});
        }
        clear_cache(share.slot);
    }
}

void Decoder::clear_cache(int32_t slot_id) {
    llama_memory_seq_rm(llama_get_memory(context_.get()), slot_id, -1, -1);
    slots_[static_cast<size_t>(slot_id)].forget();
}

void Decoder::emit(int32_t slot, int64_t turn, decltype(Event::body) body) {
    unpublished_.push_back(Event{turn, slot, std::move(body)});
}

/**
 * Whether what was emitted can go with a later step's: tokens that follow others within GATHER_TIME. Waking JavaScript costs
 * about as much as a small model's step, on the decoder's own core where the kernel runs it there.
 */
bool Decoder::can_gather() const {
    return Clock::now() - published_at_ < GATHER_TIME &&
           std::all_of(unpublished_.begin(), unpublished_.end(),
                       [](const Event & event) { return std::holds_alternative<TokenEvent>(event.body); });
}

/** Hands over what was emitted with one wake. */
void Decoder::publish() {
    if (unpublished_.empty()) {
        return;
    }
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        std::move(unpublished_.begin(), unpublished_.end(), std::back_inserter(events_));
    }
    unpublished_.clear();
    published_at_ = Clock::now();
    wake_();
}

}  // namespace lockgate
