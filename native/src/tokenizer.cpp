#include "tokenizer.h"

#include "errors.h"

#include <limits>

namespace lockgate {

namespace {

/** Tokens that a model may add in front and behind (bos, eos, sep). */
constexpr size_t MAX_ADDED_TOKENS = 4;
/** First guess at a piece's length; longer ones are asked for twice. */
constexpr size_t USUAL_PIECE_BYTES = 64;

}  // namespace

std::vector<llama_token> tokenize(const llama_vocab * vocab, const std::string & text, bool add_special,
                                  bool parse_special) {
    if (text.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max()) - MAX_ADDED_TOKENS) {
        throw Failure(ErrorCode::invalid_argument, "text is too long");
    }
    const auto               text_bytes = static_cast<int32_t>(text.size());
    std::vector<llama_token> tokens(text.size() + MAX_ADDED_TOKENS);
    int32_t count = llama_tokenize(vocab, text.data(), text_bytes, tokens.data(), static_cast<int32_t>(tokens.size()),
                                   add_special, parse_special);
    if (count == std::numeric_limits<int32_t>::min()) {
        throw Failure(ErrorCode::invalid_argument, "text gives too many tokens");
    }
    if (count < 0) {
        // Normalisers may make more tokens than the text has bytes; the negative count says how many.
        tokens.resize(static_cast<size_t>(-count));
        count = llama_tokenize(vocab, text.data(), text_bytes, tokens.data(), static_cast<int32_t>(tokens.size()),
                               add_special, parse_special);
    }
    tokens.resize(static_cast<size_t>(count < 0 ? 0 : count));
    tokens.shrink_to_fit();
    return tokens;
}

Pieces all_pieces(const llama_vocab * vocab) {
    const int32_t vocab_size = llama_vocab_n_tokens(vocab);
    Pieces        pieces;
    pieces.offsets.reserve(static_cast<size_t>(vocab_size) + 1);
    pieces.offsets.push_back(0);
    std::vector<char> piece(USUAL_PIECE_BYTES);
    for (llama_token token = 0; token < vocab_size; token++) {
        int32_t length = llama_token_to_piece(vocab, token, piece.data(), static_cast<int32_t>(piece.size()), 0, false);
        if (length < 0) {
            piece.resize(static_cast<size_t>(-length));
            length = llama_token_to_piece(vocab, token, piece.data(), static_cast<int32_t>(piece.size()), 0, false);
        }
        pieces.bytes.insert(pieces.bytes.end(), piece.begin(), piece.begin() + length);
        pieces.offsets.push_back(static_cast<uint32_t>(pieces.bytes.size()));
    }
    return pieces;
}

}  // namespace lockgate
