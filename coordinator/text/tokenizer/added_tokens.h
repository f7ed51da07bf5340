// SPDX-License-Identifier: Apache-2.0
// The "added_tokens" of tokenizer.json, and those of the other files: strings that are tokens
// wherever they occur in a text. They are found before the model's own tokens.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "coordinator/text/marked_text.h"
#include "coordinator/text/token_files.h"
#include "coordinator/text/tokenizer/normalizer.h"
#include "coordinator/text/tokenizer/string_trie.h"
#include "coordinator/text/tokenizer/vocabulary.h"

namespace lockstep {

// A part of a text: an added token, or (id -1) the text between two of them.
struct Segment {
  int32_t id;
  size_t begin;
  size_t end;
};

// Immutable once made, for any thread.
class AddedTokens {
 public:
  // Refuses a token of `spec` whose text or id contradicts the model's vocabulary or another added
  // token. A declared token that is not in `spec` is dropped if another added token has its stated
  // id, unless it `replaces`. Otherwise it gets its id in the model's vocabulary; without one, its
  // stated id if that is free, else the next id after all others. Hugging Face tokenizers do the
  // same, but also close gaps between ids.
  static absl::StatusOr<AddedTokens> from_json(const Json& spec,
                                               std::span<const DeclaredToken> declared,
                                               const Vocabulary& vocabulary,
                                               const Normalizer& normalizer);

  // Splits a text at the tokens that are matched before, or after, normalization. Special tokens
  // stay text unless `parse_special`. An empty text has no segments.
  std::vector<Segment> split_raw(std::string_view text, bool parse_special) const {
    return split(text, raw_, [parse_special](size_t, size_t) { return parse_special; });
  }
  std::vector<Segment> split_normalized(std::string_view text, bool parse_special) const {
    return split(text, normalized_, [parse_special](size_t, size_t) { return parse_special; });
  }

  // The same for a text that came in part from a request: special tokens are found only in the
  // other parts. A token that crosses a border between two parts is split there.
  std::vector<Segment> split_raw(const MarkedText& text) const { return split_marked(text, raw_); }
  std::vector<Segment> split_normalized(const MarkedText& text) const {
    return split_marked(text, normalized_);
  }

  bool is_special(int32_t id) const { return special_.count(id) > 0; }

  // The text that decoding shows for an added token, and whether it is skipped with special tokens;
  // null for other ids. A token that is matched after normalization is shown normalized, as in the
  // reference. It is then skipped only if the normalized text is a special token.
  struct Shown {
    std::string text;
    bool skipped;
  };
  const Shown* shown(int32_t id) const {
    const auto found = shown_.find(id);
    return found == shown_.end() ? nullptr : &found->second;
  }

  // The added tokens, also those that are not in the model's vocabulary.
  const Vocabulary& vocabulary() const { return vocabulary_; }

 private:
  absl::Status add(const Json& spec, const Vocabulary& vocabulary);
  absl::Status declare(const DeclaredToken& declared, const Vocabulary& vocabulary);
  absl::Status put(AddedToken token);
  absl::Status index(const Normalizer& normalizer);
  // Returns whether the special token found at [begin, end) becomes a token; else it stays text.
  using IsToken = std::function<bool(size_t begin, size_t end)>;
  std::vector<Segment> split(std::string_view text, const StringTrie& trie,
                             const IsToken& is_token) const;
  std::vector<Segment> split_marked(const MarkedText& text, const StringTrie& trie) const;

  std::vector<AddedToken> tokens_;
  std::unordered_map<int32_t, size_t> places_;  // An id's place in tokens_.
  Vocabulary vocabulary_;
  std::unordered_set<int32_t> special_;
  std::unordered_map<int32_t, Shown> shown_;
  StringTrie raw_;
  StringTrie normalized_;
};

}  // namespace lockstep
