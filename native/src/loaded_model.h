// The weights and vocabulary of one GGUF file. Shared by the decoders and tokenisers that use it; freed with the last.
// Knows no JavaScript.
#pragma once

#include <llama.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace lockgate {

struct LoadRequest {
    std::string              path;
    std::vector<std::string> devices;
    bool                     devices_given = false;
    bool                     vocab_only    = false;
};

class LoadedModel {
  public:
    /** Fraction 0..1 of the load; returns false to cancel it. */
    using Progress = std::function<bool(float fraction)>;

    /**
     * Throws Failure: file_not_found, not_a_model, unknown_device, out_of_memory, cancelled, or invalid_argument
     * (CPU and GPU devices mixed).
     */
    static std::shared_ptr<LoadedModel> load(const LoadRequest & request, const Progress & progress);

    ~LoadedModel();
    LoadedModel(const LoadedModel &) = delete;
    LoadedModel & operator=(const LoadedModel &) = delete;

    llama_model *       get() const { return model_; }
    const llama_vocab * vocab() const { return llama_model_get_vocab(model_); }
    int32_t             vocab_size() const { return llama_vocab_n_tokens(vocab()); }
    bool                vocab_only() const { return vocab_only_; }

  private:
    LoadedModel(llama_model * model, bool vocab_only) : model_(model), vocab_only_(vocab_only) {}

    llama_model * model_;
    bool          vocab_only_;
};

/** True where llama.cpp's words speak of memory that it did not get. */
bool speaks_of_memory(const std::string & reason);

}  // namespace lockgate
