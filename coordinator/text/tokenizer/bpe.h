// SPDX-License-Identifier: Apache-2.0
// The "model" of tokenizer.json, byte-pair encoding. A word begins as its characters; then the
// neighbouring pair that is first in the list of merges becomes one token, until no pair is in the
// list.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/json.h"
#include "base/status.h"
#include "coordinator/text/tokenizer/vocabulary.h"

namespace lockstep {

// Immutable once made, for any thread.
class Bpe {
 public:
  // The buffers for encoding a word; each thread keeps one, to save allocations.
  struct Scratch {
    struct Symbol {
      int32_t id;
      int32_t previous;
      int32_t next;
    };
    std::vector<Symbol> symbols;
    std::vector<uint64_t> queue;  // A heap of (rank of the merge, position), min on top.
  };

  // Errors: a type other than BPE, an unsupported option, a merge of unknown tokens.
  static absl::StatusOr<Bpe> from_json(const Json& spec);

  // Appends the word's tokens, in time n log n. kInvalidArgument for a character without a token if
  // the model's unk_token is not a token either. The word must be well-formed UTF-8.
  absl::Status encode(std::string_view word, Scratch* scratch, std::vector<int32_t>* ids) const;

  const Vocabulary& vocabulary() const { return vocabulary_; }

 private:
  absl::Status read_options(const Json& spec);
  absl::Status read_vocabulary(const Json& vocabulary);
  absl::Status read_merges(const Json& merges);
  absl::Status add_merge(std::string_view left, std::string_view right);
  void index_characters();

  absl::Status split_characters(std::string_view word, std::vector<Scratch::Symbol>* symbols) const;
  void merge_all(Scratch* scratch) const;
  void enqueue(int32_t position, Scratch* scratch) const;
  std::optional<uint32_t> rank_of(int32_t left, int32_t right) const;

  Vocabulary vocabulary_;
  absl::flat_hash_map<uint64_t, uint32_t> ranks_;  // By the pair of ids.
  std::vector<int32_t> merged_;                    // By rank.
  absl::flat_hash_map<char32_t, int32_t> characters_;
  std::array<int32_t, 256> bytes_{};  // The tokens <0x00> to <0xFF>; -1: there is none.
  std::string unk_token_;             // Empty: none.
  std::optional<int32_t> unk_id_;
  bool fuse_unk_ = false;
  bool byte_fallback_ = false;
  bool ignore_merges_ = false;
};

}  // namespace lockstep
