// SPDX-License-Identifier: Apache-2.0
// Steps are read into a flat list. emit() passes a token down the list, by calling itself for the
// next step. Decoding a whole list of tokens uses the same stream, so each step has one definition.
#include "coordinator/text/tokenizer/decoder.h"

#include <algorithm>
#include <utility>

#include "coordinator/text/tokenizer/byte_level.h"
#include "coordinator/text/tokenizer/spec.h"
#include "coordinator/text/unicode/unicode.h"

namespace lockstep {
namespace {

constexpr size_t kMaxSteps = 32;
constexpr size_t kMaxGrowth = 256;
constexpr int64_t kMaxStrip = 1000;

std::optional<int> hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return std::nullopt;
}

// The byte of a token <0xHH>. The parser of tokenizers accepts a plus sign as the first digit.
std::optional<char> byte_of(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
  const auto high = token[3] == '+' ? 0 : hex_digit(token[3]);
  const auto low = hex_digit(token[4]);
  if (!high.has_value() || !low.has_value()) return std::nullopt;
  return static_cast<char>(*high << 4 | *low);
}

std::string replace(const Pattern& pattern, std::string_view text, std::string_view content) {
  auto replaced = pattern.replace_all(text, content);
  return replaced.ok() ? *std::move(replaced) : std::string(text);  // Over a limit: unchanged.
}

// replace() for a token's own bytes. If these contain a part of a character, nothing matches.
std::string replace_whole(const Pattern& pattern, std::string_view bytes,
                          std::string_view content) {
  return first_invalid_utf8(bytes).has_value() ? std::string(bytes)
                                               : replace(pattern, bytes, content);
}

// Removes up to `start` copies of `content` at the beginning and up to `stop` at the end.
std::string_view strip(std::string_view token, std::string_view content, size_t start,
                       size_t stop) {
  for (size_t i = 0; i < start && token.starts_with(content); ++i)
    token.remove_prefix(content.size());
  for (size_t i = 0; i < stop && token.ends_with(content); ++i) token.remove_suffix(content.size());
  return token;
}

}  // namespace

absl::StatusOr<Decoder> Decoder::from_json(const Json& spec) {
  Decoder decoder;
  if (spec.is_null()) {
    decoder.joins_by_blanks_ = true;
    return decoder;
  }
  RETURN_IF_ERROR(decoder.add(spec));
  return decoder;
}

absl::Status Decoder::add(const Json& spec) {
  ASSIGN_OR_RETURN(const std::string type, type_member(spec, "decoder"));
  const std::string what = fmt::format("decoder \"{:.60}\"", type);
  if (type == "Sequence") {
    const Json& parts = member(spec, "decoders");
    if (!parts.is_array()) return invalid_argument("{}: \"decoders\" must be a list", what);
    for (const Json& part : parts) RETURN_IF_ERROR(add(part));
    return absl::OkStatus();
  }
  Step step;
  step.whole_text = !steps_.empty() && joins_tokens(steps_.back());
  if (type == "Replace") {
    RETURN_IF_ERROR(read_replace(spec, what, &step));
  } else if (type == "ByteFallback") {
    step.kind = Kind::kByteFallback;
  } else if (type == "Fuse") {
    step.kind = Kind::kFuse;
  } else if (type == "Strip") {
    RETURN_IF_ERROR(read_strip(spec, what, &step));
  } else if (type == "ByteLevel") {
    step.kind = Kind::kByteLevel;
  } else if (type == "Metaspace") {
    RETURN_IF_ERROR(read_metaspace(spec, what, &step));
  } else {
    return invalid_argument(
        "{} is not supported; supported: Sequence, Replace, ByteFallback, Fuse, Strip, ByteLevel, "
        "Metaspace",
        what);
  }
  if (steps_.size() == kMaxSteps)
    return invalid_argument("{}: more than {} steps", what, kMaxSteps);
  steps_.push_back(std::move(step));
  return absl::OkStatus();
}

bool Decoder::joins_tokens(const Step& step) const {
  return step.whole_text || step.kind == Kind::kFuse || step.kind == Kind::kByteLevel;
}

absl::Status Decoder::read_replace(const Json& spec, const std::string& what, Step* step) {
  step->kind = Kind::kReplace;
  const Json& pattern = member(spec, "pattern");
  ASSIGN_OR_RETURN(step->content, string_member(spec, "content", what));
  ASSIGN_OR_RETURN(step->pattern, Pattern::from_json(pattern, what));
  const Json& literal = member(pattern, "String");
  const size_t shortest =
      literal.is_string() ? std::max<size_t>(literal.get_ref<const std::string&>().size(), 1) : 1;
  growth_ *= std::max<size_t>((step->content.size() + shortest - 1) / shortest, 1);
  if (growth_ > kMaxGrowth) {
    return invalid_argument("{}: replacements that make a text {} times as long are not supported",
                            what, growth_);
  }
  return absl::OkStatus();
}

absl::Status Decoder::read_strip(const Json& spec, const std::string& what, Step* step) {
  step->kind = Kind::kStrip;
  ASSIGN_OR_RETURN(step->content, character_member(spec, "content", what));
  ASSIGN_OR_RETURN(const int64_t start, int_member(spec, "start", what, 0, kMaxStrip));
  ASSIGN_OR_RETURN(const int64_t stop, int_member(spec, "stop", what, 0, kMaxStrip));
  step->start = static_cast<size_t>(start);
  step->stop = static_cast<size_t>(stop);
  return absl::OkStatus();
}

absl::Status Decoder::read_metaspace(const Json& spec, const std::string& what, Step* step) {
  step->kind = Kind::kMetaspace;
  ASSIGN_OR_RETURN(step->content, character_member(spec, "replacement", what));
  ASSIGN_OR_RETURN(const std::string scheme, string_member(spec, "prepend_scheme", what, "always"));
  ASSIGN_OR_RETURN(const bool prefix, bool_member(spec, "add_prefix_space", what, true));
  step->drops_leading = prefix && scheme != "never";
  return absl::OkStatus();
}

bool Decoder::State::holds_back() const {
  return std::ranges::any_of(steps, [](const StepState& step) { return !step.withheld.empty(); });
}

Decoder::State Decoder::start(bool keep_leading_blank, Gives gives) const {
  State state;
  state.gives = gives;
  state.steps.resize(steps_.size());
  for (size_t i = 0; i < steps_.size(); ++i) {
    const bool at_beginning = steps_[i].kind == Kind::kMetaspace ||
                              (steps_[i].kind == Kind::kStrip && steps_[i].whole_text);
    state.steps[i].started = keep_leading_blank && at_beginning;
  }
  return state;
}

void Decoder::push(std::string_view token, State* state, std::string* text) const {
  if (joins_by_blanks_ && state->started) text->push_back(' ');
  state->started = true;
  state->gives == Gives::kText ? emit(0, token, state, text) : emit_bytes(0, token, state, text);
}

void Decoder::emit(size_t index, std::string_view token, State* state, std::string* text) const {
  if (index == steps_.size()) {
    text->append(token);
    return;
  }
  const Step& step = steps_[index];
  StepState& own = state->steps[index];
  switch (step.kind) {
    case Kind::kReplace:
      if (step.whole_text) {
        own.withheld.append(token);  // A match may cross parts: only the end makes it certain.
      } else {
        emit(index + 1, replace(*step.pattern, token, step.content), state, text);
      }
      return;
    case Kind::kByteFallback:
      if (step.whole_text) {
        own.withheld.append(token);
      } else {
        byte_fallback(index, token, state, text);
      }
      return;
    case Kind::kFuse:
      emit(index + 1, token, state, text);
      return;
    case Kind::kStrip:
      if (step.whole_text) {
        strip_stream(index, token, state, text);
      } else {
        emit(index + 1, strip(token, step.content, step.start, step.stop), state, text);
      }
      return;
    case Kind::kByteLevel:
      if (step.whole_text) {
        own.withheld.append(token);
      } else {
        append_byte_level_decoded(token, &own.withheld);
        byte_level(index, false, state, text);
      }
      return;
    case Kind::kMetaspace:
      metaspace(index, token, state, text);
      return;
  }
}

// Holds nothing back: the bytes of a token do not depend on later tokens.
void Decoder::emit_bytes(size_t index, std::string_view token, State* state,
                         std::string* bytes) const {
  std::string own(token);
  for (; index < steps_.size(); ++index) {
    const Step& step = steps_[index];
    StepState& at = state->steps[index];
    switch (step.kind) {
      case Kind::kReplace:
        own = replace_whole(*step.pattern, own, step.content);
        break;
      case Kind::kByteFallback:
        if (const auto byte = byte_of(own); byte.has_value()) own.assign(1, *byte);
        break;
      case Kind::kFuse:
        break;
      case Kind::kStrip:
        own = std::string(step.whole_text ? strip_front(step, own, &at)
                                          : strip(own, step.content, step.start, step.stop));
        break;
      case Kind::kByteLevel: {
        std::string decoded;
        append_byte_level_decoded(own, &decoded);
        own = std::move(decoded);
        break;
      }
      case Kind::kMetaspace: {
        const bool drops = step.drops_leading && !std::exchange(at.started, true);
        own = replace_whole(Pattern::from_string(step.content), own, drops ? "" : " ");
        break;
      }
    }
  }
  bytes->append(own);
}

void Decoder::finish(State* state, std::string* text) const {
  for (size_t i = 0; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    const std::string whole = step.whole_text ? std::exchange(state->steps[i].withheld, "") : "";
    switch (step.kind) {
      case Kind::kReplace:
        if (step.whole_text) emit(i + 1, replace(*step.pattern, whole, step.content), state, text);
        break;
      case Kind::kByteFallback:
        if (step.whole_text) byte_fallback(i, whole, state, text);
        end_byte_run(i, state, text);
        break;
      case Kind::kByteLevel:
        if (step.whole_text) append_byte_level_decoded(whole, &state->steps[i].withheld);
        byte_level(i, true, state, text);
        break;
      case Kind::kFuse:
      case Kind::kStrip:  // It holds back only text that it strips.
      case Kind::kMetaspace:
        break;
    }
  }
}

void Decoder::byte_fallback(size_t index, std::string_view token, State* state,
                            std::string* text) const {
  if (const auto byte = byte_of(token); byte.has_value()) {
    state->steps[index].withheld.push_back(*byte);
    return;
  }
  end_byte_run(index, state, text);
  emit(index + 1, token, state, text);
}

void Decoder::end_byte_run(size_t index, State* state, std::string* text) const {
  const std::string run = std::exchange(state->steps[index].withheld, "");
  if (run.empty()) return;
  if (!first_invalid_utf8(run).has_value()) {
    emit(index + 1, run, state, text);
    return;
  }
  for (size_t i = 0; i < run.size(); ++i) emit(index + 1, kReplacement, state, text);
}

Replaces Decoder::replaces() const {
  const bool each_byte = std::ranges::any_of(
      steps_, [](const Step& step) { return step.kind == Kind::kByteFallback; });
  return each_byte ? Replaces::kBytes : Replaces::kSequences;
}

// Passes on the whole characters of the withheld bytes, and at the end also an incomplete one.
void Decoder::byte_level(size_t index, bool is_end, State* state, std::string* text) const {
  const std::string certain =
      take_characters(&state->steps[index].withheld, is_end, Replaces::kSequences);
  if (!certain.empty()) emit(index + 1, certain, state, text);
}

// Drops up to step.start copies of step.content at the beginning of a text that arrives in parts.
std::string_view Decoder::strip_front(const Step& step, std::string_view part, StepState* own) {
  while (!own->started && !part.empty()) {
    own->started = own->count == step.start || !part.starts_with(step.content);
    if (own->started) break;
    part.remove_prefix(step.content.size());
    ++own->count;
  }
  return part;
}

// Strips a text that arrives in parts: the last copies of the content are held back until more text
// follows.
void Decoder::strip_stream(size_t index, std::string_view part, State* state,
                           std::string* text) const {
  const Step& step = steps_[index];
  StepState& own = state->steps[index];
  part = strip_front(step, part, &own);
  if (part.empty()) return;
  std::string certain = std::move(own.withheld);
  certain += part;
  const std::string_view kept = strip(certain, step.content, 0, step.stop);
  own.withheld = certain.substr(kept.size());
  if (!kept.empty()) emit(index + 1, kept, state, text);
}

void Decoder::metaspace(size_t index, std::string_view token, State* state,
                        std::string* text) const {
  const Step& step = steps_[index];
  StepState& own = state->steps[index];
  const bool drops = step.drops_leading && !own.started;
  // If a text arrives in parts, all parts belong to its first token. In the first token, tokenizers
  // drop all marks.
  if (!step.whole_text) own.started = true;
  const Pattern mark = Pattern::from_string(step.content);
  emit(index + 1, replace(mark, token, drops ? "" : " "), state, text);
}

}  // namespace lockstep
