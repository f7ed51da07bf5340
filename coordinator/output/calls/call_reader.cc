// SPDX-License-Identifier: Apache-2.0
#include "coordinator/output/calls/call_reader.h"

#include "coordinator/output/calls/gemma_call.h"
#include "coordinator/output/calls/headed_call.h"
#include "coordinator/output/calls/json_call.h"
#include "coordinator/output/calls/python_call.h"
#include "coordinator/output/calls/tagged_call.h"

namespace lockstep {
namespace {

std::unique_ptr<CallReader> make_one(const Format& format, CallNotation notation,
                                     const FunctionTypes* functions) {
  switch (notation) {
    case CallNotation::kHeaded:
      return std::make_unique<HeadedCalls>(format);
    case CallNotation::kTagged:
      return std::make_unique<TaggedCalls>(format, functions);
    case CallNotation::kPython:
      return std::make_unique<PythonCalls>(format);
    case CallNotation::kGemma:
      return std::make_unique<GemmaCalls>(format);
    default:
      return std::make_unique<JsonCalls>(format);
  }
}

// After the begin tag, waits for the first byte that is neither a blank nor a bracket. A brace
// begins JSON. Any other byte begins the format's own notation.
class EitherCalls final : public CallReader {
 public:
  EitherCalls(const Format& format, const FunctionTypes* functions)
      : format_(format),
        functions_(functions),
        tags_({format.begins.begin(), format.begins.end()}) {}

  State push(char c, OutputSink* sink) override {
    if (chosen_ != nullptr) return forward(c, sink);
    text_ += c;
    std::string text;
    tags_.push(c, &text);
    for (const char next : text) {
      if (is_blank(next) || next == '[') continue;
      choose(next);
      break;
    }
    if (chosen_ == nullptr) return State::kMore;
    State state = State::kMore;
    const std::string taken = take_text();
    for (size_t i = 0; i < taken.size() && state == State::kMore; ++i) {
      state = forward(taken[i], sink);
      if (state != State::kMore) text_ += taken.substr(i + 1);
    }
    return state;
  }

  void finish(bool is_cut, OutputSink* sink) override {
    if (chosen_ == nullptr) return;
    chosen_->finish(is_cut, sink);
    text_ += chosen_->take_text();
  }

 private:
  void choose(char first) {
    chosen_ = make_one(format_, first == '{' ? CallNotation::kJson : format_.notation, functions_);
  }
  State forward(char c, OutputSink* sink) {
    const State state = chosen_->push(c, sink);
    if (state == State::kText) text_ = chosen_->take_text();
    return state;
  }

  const Format& format_;
  const FunctionTypes* const functions_;
  TagFinder tags_;
  std::unique_ptr<CallReader> chosen_;
};

}  // namespace

std::unique_ptr<CallReader> make_call_reader(const Format& format, const FunctionTypes* functions) {
  if (format.has_json) return std::make_unique<EitherCalls>(format, functions);
  return make_one(format, format.notation, functions);
}

}  // namespace lockstep
