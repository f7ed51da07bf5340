// SPDX-License-Identifier: Apache-2.0
// A state machine over bytes, so that how the text was cut cannot matter.
#include "coordinator/openai/output_parser.h"

#include <cctype>

#include "base/check.h"

namespace lockstep::openai {
namespace {

constexpr size_t kMaxName = 250;  // With [CALL_ID]...[ARGS].

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

bool is_of_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '.';
}

}  // namespace

OutputParser::OutputParser(const OutputOptions& options)
    : options_(options), place_(options.in_thought ? Place::kThought : Place::kStart) {
  LOCKSTEP_CHECK(options.thoughts != nullptr || !options.in_thought);
  if (options.thoughts == nullptr) begin_content({});
}

OutputDelta OutputParser::push(std::string_view text) {
  for (const char c : text) push(c);
  return std::exchange(delta_, {});
}

void OutputParser::push(char c) {
  switch (place_) {
    case Place::kStart:
      return at_start(c);
    case Place::kThought:
      return in_thought(c);
    case Place::kAfterThought:
      if (!is_blank(c)) begin_content({&c, 1});
      return;
    case Place::kContent:
      return in_content(c);
    case Place::kBareStart:
      if (c == '{') return begin_calls("");
      if (is_blank(c)) return blanks_.push_back(c);
      place_ = Place::kContent;
      return add_content(c);
    case Place::kCalls:
      return between_calls(c);
    case Place::kName:
      return in_name(c);
    case Place::kCall:
      return in_call(c);
  }
}

OutputDelta OutputParser::finish() {
  const std::string held = std::exchange(held_, {});
  if (place_ == Place::kThought) {
    for (const char c : held) add_thought(c);
    return std::exchange(delta_, {});
  }
  if (place_ == Place::kCalls && !after_call_) raw_ += held;
  if (place_ == Place::kCalls || place_ == Place::kName || place_ == Place::kCall) {
    no_call();
  } else {
    for (const char c : held) add_content(c);
  }
  if (!after_call_) delta_.content += blanks_;
  return std::exchange(delta_, {});
}

// ---- Thoughts ----

void OutputParser::at_start(char c) {
  if (held_.empty() && is_blank(c)) return blanks_.push_back(c);
  held_ += c;
  if (options_.thoughts->begin == held_) {
    held_.clear();
    blanks_.clear();
    place_ = Place::kThought;
  } else if (!options_.thoughts->begin.starts_with(held_)) {
    begin_content(std::exchange(blanks_, {}) + std::exchange(held_, {}));
  }
}

void OutputParser::in_thought(char c) {
  held_ += c;
  if (held_ == options_.thoughts->end) {
    held_.clear();
    blanks_.clear();
    place_ = Place::kAfterThought;
    return;
  }
  for (; !options_.thoughts->end.starts_with(held_); held_.erase(0, 1)) add_thought(held_[0]);
}

void OutputParser::add_thought(char c) {
  if (is_blank(c)) {
    if (has_thought_) blanks_ += c;
    return;
  }
  has_thought_ = true;
  delta_.thought += std::exchange(blanks_, {}) + c;
}

// ---- Content ----

void OutputParser::begin_content(std::string_view text) {
  const bool bare = options_.tools != nullptr && options_.tools->begin.empty();
  place_ = bare ? Place::kBareStart : Place::kContent;
  for (const char c : text) push(c);
}

void OutputParser::in_content(char c) {
  if (options_.tools == nullptr || options_.tools->begin.empty()) return add_content(c);
  held_ += c;
  if (held_ == options_.tools->begin) return begin_calls(options_.tools->begin);
  for (; !options_.tools->begin.starts_with(held_); held_.erase(0, 1)) add_content(held_[0]);
}

// Blanks wait where a call may follow.
void OutputParser::add_content(char c) {
  if (is_blank(c) && options_.tools != nullptr && !options_.tools->begin.empty()) {
    return blanks_.push_back(c);
  }
  if (!after_call_) delta_.content += blanks_;
  blanks_.clear();
  after_call_ = false;
  delta_.content += c;
}

// ---- Calls ----

// A format without a tag begins with the first call itself.
void OutputParser::begin_calls(std::string_view tag) {
  held_.clear();
  raw_ = tag.empty() ? blanks_ : blanks_ + std::string(tag);
  blanks_.clear();
  place_ = Place::kCalls;
  if (!tag.empty()) return;
  begin_call();
  in_call('{');
}

void OutputParser::between_calls(char c) {
  const ToolFormat& format = *options_.tools;
  held_ += c;
  if (!format.begin.empty() && held_ == format.begin) return held_.clear();
  if (!format.end.empty() && held_ == format.end) {
    held_.clear();
    raw_.clear();
    place_ = Place::kContent;
    return;
  }
  const bool may_be_tag = (!format.begin.empty() && format.begin.starts_with(held_)) ||
                          (!format.end.empty() && format.end.starts_with(held_));
  if (may_be_tag) return;
  const std::string text = std::exchange(held_, {});
  const char first = text[0];
  if (first == '{') {
    begin_call();
    in_call(first);
  } else if (format.named && is_of_name(first)) {
    place_ = Place::kName;
    in_name(first);
  } else if (first == ']' && after_call_) {
    if (format.end.empty()) place_ = Place::kContent;
  } else {
    if (!after_call_) raw_ += first;
    const bool separates = is_blank(first) || first == '[' || first == ',' || first == ';';
    if (!separates) {
      if (after_call_) raw_ = first;
      no_call();
    }
  }
  for (const char next : std::string_view(text).substr(1)) push(next);
}

// name{...}, name[ARGS]{...} and name[CALL_ID]...[ARGS]{...}
void OutputParser::in_name(char c) {
  if (c == '{') {
    const std::string name = held_.substr(0, held_.find('['));
    begin_call();
    is_short_ = true;
    for (const char given : "{\"name\":\"" + name + "\",\"arguments\":") scanner_.push(given);
    return in_call(c);
  }
  raw_ += c;
  held_ += c;
  if (held_.size() > kMaxName || (!is_of_name(c) && c != '[' && c != ']')) {
    held_.clear();
    no_call();
  }
}

void OutputParser::begin_call() {
  held_.clear();
  place_ = Place::kCall;
  scanner_ = {};
  named_ = is_short_ = false;
}

void OutputParser::in_call(char c) {
  if (!named_) raw_ += c;
  CallScanner::State state = scanner_.push(c);
  if (is_short_ && state == CallScanner::State::kMore && scanner_.between_members()) {
    state = scanner_.push('}');
  }
  const bool is_certain = !options_.tools->begin.empty() && state == CallScanner::State::kDone;
  if (!named_ && !scanner_.name().empty() && (scanner_.has_arguments() || is_certain)) {
    name_call(scanner_.name());
  }
  if (named_) add_arguments(scanner_.take_arguments());
  if (state == CallScanner::State::kMore) return;
  if (!named_) return no_call();
  if (!scanner_.has_arguments()) add_arguments("{}");
  end_call();
  if (state == CallScanner::State::kFailed) push(c);  // It belongs to what follows.
}

void OutputParser::name_call(const std::string& name) {
  named_ = true;
  raw_.clear();
  ++calls_;
  if (CallDelta* call = news()) call->name = name;
}

void OutputParser::end_call() {
  place_ = Place::kCalls;
  after_call_ = true;
}

// What was held as the beginning of a call is content, unless its name was told already.
void OutputParser::no_call() {
  place_ = Place::kContent;
  for (const char c : std::exchange(raw_, {})) add_content(c);
}

void OutputParser::add_arguments(const std::string& arguments) {
  if (arguments.empty()) return;
  if (CallDelta* call = news()) call->arguments += arguments;
}

// Of the last call; null where it is not wanted.
CallDelta* OutputParser::news() {
  if (options_.one_call && calls_ > 1) return nullptr;
  if (delta_.calls.empty() || delta_.calls.back().index != calls_ - 1) {
    delta_.calls.push_back({.index = calls_ - 1});
  }
  return &delta_.calls.back();
}

}  // namespace lockstep::openai
