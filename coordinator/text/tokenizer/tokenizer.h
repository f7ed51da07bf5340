// SPDX-License-Identifier: Apache-2.0
// Converts text to token ids and back, as defined by tokenizer.json and implemented by the
// reference (Hugging Face's tokenizers).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "coordinator/text/marked_text.h"
#include "coordinator/text/token_files.h"
#include "coordinator/text/tokenizer/added_tokens.h"
#include "coordinator/text/tokenizer/bpe.h"
#include "coordinator/text/tokenizer/decoder.h"
#include "coordinator/text/tokenizer/normalizer.h"
#include "coordinator/text/tokenizer/post_processor.h"
#include "coordinator/text/tokenizer/pre_tokenizer.h"

namespace lockstep {

struct EncodeOptions {
  bool add_special = true;  // The post-processor's begin and end tokens are added.
  bool parse_special =
      true;  // Special tokens written in the text become tokens; else they stay text.
};

// Immutable after loading: any thread may call any method.
class Tokenizer {
 public:
  // Reads tokenizer.json and the other files (token_files.h). If a file is missing or damaged, or
  // uses an unsupported feature, the error is one line that names the file and the feature.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> load(const std::filesystem::path& folder);

  // The same from the file's content.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> parse(std::string_view tokenizer_json,
                                                          const TokenFiles& files = {});

  // Converts text to ids. kInvalidArgument for text that is not UTF-8 (names the byte), that is
  // over 256 MiB, or for which the model has no token; kResourceExhausted if a pattern of the
  // tokenizer takes too long.
  absl::StatusOr<std::vector<int32_t>> encode(std::string_view text,
                                              const EncodeOptions& options = {}) const;

  // The same for a text that came in part from a request: special tokens are found only in the
  // other parts. A token that crosses a border between two parts is split there.
  absl::StatusOr<std::vector<int32_t>> encode(const MarkedText& text, bool add_special) const;

  // The text of the ids, well-formed UTF-8 with U+FFFD for invalid bytes. Ids without a token, also
  // negative ones, are ignored. A Detokenizer gives the same in pieces. Stops if the text is longer
  // than `max_bytes`.
  std::string decode(std::span<const int32_t> ids, bool skip_special = true,
                     size_t max_bytes = std::string::npos) const;

  // The largest id plus one, including added tokens. The vocabulary size of the model's config may
  // be larger.
  int32_t vocab_size() const;
  // The files' bos_token (eos_token), else the post-processor's first (last) token.
  std::optional<int32_t> bos_id() const { return bos_id_; }
  std::optional<int32_t> eos_id() const { return eos_id_; }
  bool is_special(int32_t id) const { return added_tokens_.is_special(id); }

  // The token as the file writes it; empty if the id has none.
  std::string token_text(int32_t id) const;
  std::optional<int32_t> token_id(std::string_view token) const;

  // For Detokenizer: the input of the decoder, or null if the id shows nothing.
  const std::string* shown_text(int32_t id, bool skip_special) const;
  const Decoder& decoder() const { return decoder_; }

 private:
  Tokenizer() = default;
  absl::Status read(const Json& spec, const TokenFiles& files);
  absl::Status encode_text(std::string_view text, bool at_start, bool parse_special,
                           Bpe::Scratch* scratch, std::vector<int32_t>* ids) const;
  absl::Status encode_marked(MarkedText text, bool at_start, Bpe::Scratch* scratch,
                             std::vector<int32_t>* ids) const;
  absl::Status encode_segments(std::string_view normalized, bool at_start,
                               std::span<const Segment> segments, Bpe::Scratch* scratch,
                               std::vector<int32_t>* ids) const;

  Normalizer normalizer_;
  PreTokenizer pre_tokenizer_;
  Bpe model_;
  AddedTokens added_tokens_;
  PostProcessor post_processor_;
  Decoder decoder_;
  std::optional<int32_t> bos_id_;
  std::optional<int32_t> eos_id_;
};

}  // namespace lockstep
