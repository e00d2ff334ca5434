// A llama_batch that is freed with its owner and never holds more tokens than it was made for.
#pragma once

#include <llama.h>

#include <stdexcept>

namespace lockgate {

class Batch {
  public:
    explicit Batch(int32_t capacity_tokens) :
        capacity_tokens_(capacity_tokens), batch_(llama_batch_init(capacity_tokens, 0, 1)) {}
    ~Batch() { llama_batch_free(batch_); }
    Batch(const Batch &) = delete;
    Batch & operator=(const Batch &) = delete;

    void                clear() { batch_.n_tokens = 0; }
    int32_t             size() const { return batch_.n_tokens; }
    const llama_batch & get() const { return batch_; }

    /** Gives the row of the token, by which its logits are asked for. */
    int32_t add(llama_token token, llama_pos position, llama_seq_id sequence, bool wants_logits) {
        const int32_t row = batch_.n_tokens;
        if (row >= capacity_tokens_) {
            // A bug of ours; llama_decode() would abort the process.
            throw std::logic_error("the batch is full");
        }
        batch_.token[row]     = token;
        batch_.pos[row]       = position;
        batch_.n_seq_id[row]  = 1;
        batch_.seq_id[row][0] = sequence;
        batch_.logits[row]    = wants_logits ? 1 : 0;
        batch_.n_tokens++;
        return row;
    }

  private:
    int32_t     capacity_tokens_;
    llama_batch batch_;
};

}  // namespace lockgate
