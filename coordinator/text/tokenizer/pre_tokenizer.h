// SPDX-License-Identifier: Apache-2.0
// The "pre_tokenizer" of tokenizer.json: splits a normalized text into the words that BPE encodes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "coordinator/text/tokenizer/pattern.h"

namespace lockstep {

// A word, or a text still to be split. `at_start`: it begins where the whole input does.
struct Piece {
  std::string text;
  bool at_start;
};

// Immutable once made, for any thread.
class PreTokenizer {
 public:
  // null gives one that does not split. Errors name an unsupported type.
  static absl::StatusOr<PreTokenizer> from_json(const Json& spec);

  // The words in order, none empty. The text must be well-formed UTF-8. kResourceExhausted: a
  // pattern takes too long.
  absl::StatusOr<std::vector<Piece>> split(Piece text) const;

 private:
  enum class Kind { kSplit, kByteLevel, kMetaspace, kCharacters, kFixedLength, kScripts };
  enum class Behavior { kIsolated, kRemoved, kMergedWithPrevious, kMergedWithNext, kContiguous };
  enum class Prepend { kAlways, kFirst, kNever };
  struct Step {
    Kind kind = Kind::kSplit;
    Behavior behavior = Behavior::kIsolated;
    bool invert = false;
    bool cut = true;                    // ByteLevel's use_regex, Metaspace's split.
    Prepend prepend = Prepend::kNever;  // ByteLevel's add_prefix_space, Metaspace's prepend_scheme.
    std::optional<Pattern> pattern;
    std::string replacement;                   // Metaspace's mark.
    bool (*is_delimiter)(char32_t) = nullptr;  // kCharacters.
    int64_t length = 0;                        // kFixedLength: in characters.
  };

  static absl::StatusOr<Behavior> read_behavior(const Json& value, const std::string& what);
  static absl::Status read_split(const Json& spec, const std::string& what, Step* step);
  static absl::Status read_byte_level(const Json& spec, const std::string& what, Step* step);
  static absl::Status read_metaspace(const Json& spec, const std::string& what, Step* step);
  static absl::Status read_characters(const Json& spec, const std::string& what,
                                      const std::string& type, Step* step);
  static std::vector<Span> merge(const std::vector<Span>& spans, Behavior behavior);
  static absl::Status run(const Step& step, Piece piece, std::vector<Piece>* pieces);

  absl::Status add(const Json& spec);

  std::vector<Step> steps_;
};

}  // namespace lockstep
