// SPDX-License-Identifier: Apache-2.0
// The "normalizer" of tokenizer.json: rewrites a text before it is split.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "coordinator/text/marked_text.h"
#include "coordinator/text/tokenizer/pattern.h"

namespace lockstep {

// Immutable once made, for any thread.
class Normalizer {
 public:
  // null gives one that does nothing. Errors name an unsupported type.
  static absl::StatusOr<Normalizer> from_json(const Json& spec);

  // Normalizes in place. `at_start`: whether the text begins where the whole input does; becomes
  // false if a leading blank is removed. The text must be well-formed UTF-8. kResourceExhausted: a
  // pattern takes too long, or the text grows too much.
  absl::Status normalize(std::string* text, bool* at_start) const {
    return normalize(text, {}, at_start);
  }

  // The same for a text that came in part from a request. A character that is made from both sides
  // of a border, such as a letter and its accent, counts as the request's.
  absl::Status normalize(MarkedText* text, bool* at_start) const;

 private:
  enum class Kind {
    kPrepend,
    kReplace,
    kNfc,
    kNfd,
    kNfkc,
    kNfkd,
    kLowercase,
    kStrip,
    kStripAccents,
    kNmt
  };
  struct Step {
    Kind kind;
    std::string text;  // The text to prepend, or the replacement.
    std::optional<Pattern> pattern;
    bool strip_left = false;
    bool strip_right = false;
  };

  // Whether a piece is the first and the last one of its text.
  struct Place {
    bool first = true;
    bool last = true;
  };
  absl::StatusOr<size_t> normalize_pieces(const MarkedText& text,
                                          const std::vector<MarkedPiece>& pieces, bool* at_start,
                                          MarkedText* made) const;

  absl::Status add(const Json& spec);
  absl::Status normalize(std::string* text, Place place, bool* at_start) const;

  std::vector<Step> steps_;
};

}  // namespace lockstep
