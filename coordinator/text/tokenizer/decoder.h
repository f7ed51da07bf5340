// SPDX-License-Identifier: Apache-2.0
// The "decoder" of tokenizer.json: converts token texts to text, as a stream. Each step passes on
// what can no longer change. So the joined pieces of a stream are the text that Hugging Face
// tokenizers make of all its tokens.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "coordinator/text/tokenizer/pattern.h"
#include "coordinator/text/unicode/unicode.h"

namespace lockstep {

// Immutable once made, for any thread; State has the state of a stream.
class Decoder {
 public:
  struct StepState {
    std::string withheld;  // Text or bytes that later tokens may still change.
    size_t count = 0;      // kStrip: the number of copies stripped at the beginning.
    bool started = false;  // A token, or a character that stays, has arrived.
  };
  // The output of a stream: well-formed text as soon as it is certain, or at once the bytes of
  // every token, which may be a part of a character.
  enum class Gives { kText, kBytes };
  // The state of one stream. Copying it forks the stream.
  struct State {
    std::vector<StepState> steps;
    bool started = false;
    Gives gives = Gives::kText;

    bool holds_back() const;  // Some text is not shown yet.
  };

  // null gives the default of tokenizers, blanks between tokens. Errors name an unsupported type.
  static absl::StatusOr<Decoder> from_json(const Json& spec);

  // `keep_leading_blank`: the stream continues other text, so the blank at its beginning is shown.
  State start(bool keep_leading_blank, Gives gives = Gives::kText) const;

  // Appends the text that is now certain to `text`. The time depends on the length of the token and
  // of the withheld text.
  void push(std::string_view token, State* state, std::string* text) const;
  // Appends the rest and ends the stream.
  void finish(State* state, std::string* text) const;

  Replaces replaces() const;  // How its text uses U+FFFD.

 private:
  enum class Kind { kReplace, kByteFallback, kFuse, kStrip, kByteLevel, kMetaspace };
  struct Step {
    Kind kind = Kind::kFuse;
    std::string content;
    std::optional<Pattern> pattern;  // kReplace
    size_t start = 0;                // kStrip: max copies to strip at the beginning and end.
    size_t stop = 0;
    bool drops_leading = false;  // kMetaspace
    bool whole_text = false;     // The input is one token in parts, not tokens.
  };

  absl::Status add(const Json& spec);
  absl::Status read_replace(const Json& spec, const std::string& what, Step* step);
  absl::Status read_strip(const Json& spec, const std::string& what, Step* step);
  absl::Status read_metaspace(const Json& spec, const std::string& what, Step* step);
  bool joins_tokens(const Step& step) const;

  void emit(size_t step, std::string_view token, State* state, std::string* text) const;
  void emit_bytes(size_t step, std::string_view token, State* state, std::string* bytes) const;
  void byte_fallback(size_t index, std::string_view token, State* state, std::string* text) const;
  void end_byte_run(size_t index, State* state, std::string* text) const;
  void byte_level(size_t index, bool is_end, State* state, std::string* text) const;
  static std::string_view strip_front(const Step& step, std::string_view part, StepState* own);
  void strip_stream(size_t index, std::string_view part, State* state, std::string* text) const;
  void metaspace(size_t index, std::string_view token, State* state, std::string* text) const;

  std::vector<Step> steps_;
  size_t growth_ = 1;  // The max factor by which replacements lengthen a text.
  bool joins_by_blanks_ = false;
};

}  // namespace lockstep
