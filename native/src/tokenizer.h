// Text to token ids and token ids to bytes. Stateless; safe from any thread (so is llama.cpp's vocabulary).
#pragma once

#include <llama.h>

#include <cstdint>
#include <string>
#include <vector>

namespace lockgate {

/** Throws Failure invalid_argument where the text gives more tokens than 32 bits count. */
std::vector<llama_token> tokenize(const llama_vocab * vocab, const std::string & text, bool add_special,
                                  bool parse_special);

/** The bytes of every token, end to end; token i's lie between offsets[i] and offsets[i + 1]. */
struct Pieces {
    std::vector<uint32_t> offsets;
    std::vector<uint8_t>  bytes;
};

/** Control tokens give no bytes. */
Pieces all_pieces(const llama_vocab * vocab);

}  // namespace lockgate
