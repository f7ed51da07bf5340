// SPDX-License-Identifier: Apache-2.0
#include "coordinator/output/output_sink.h"

#include <utility>

#include "coordinator/output/calls/json_text.h"

namespace lockstep {

void OutputDelta::append(OutputDelta more) {
  thought += more.thought;
  content += more.content;
  for (CallDelta& call : more.calls) {
    if (!calls.empty() && calls.back().index == call.index) {
      calls.back().arguments += call.arguments;
    } else {
      calls.push_back(std::move(call));
    }
  }
}

// ---- Thoughts ----

void OutputSink::begin_thought() {
  has_thought_ = false;
  thought_blanks_ = has_thoughts_ ? "\n" : "";
}

void OutputSink::add_thought(std::string_view text) {
  for (const char c : text) {
    if (is_blank(c)) {
      if (has_thought_) thought_blanks_ += c;
      continue;
    }
    has_thought_ = has_thoughts_ = true;
    delta_.thought += std::exchange(thought_blanks_, {});
    delta_.thought += c;
  }
}

void OutputSink::end_thought() {
  thought_blanks_.clear();
  has_thought_ = false;
  drop_pending_blanks();
}

// ---- Content ----

void OutputSink::add_content(std::string_view text) {
  for (const char c : text) {
    if (is_blank(c)) {
      blanks_ += c;
      continue;
    }
    if (drops_blanks_ && has_content_ && blanks_.empty()) blanks_ = "\n";
    if (!drops_blanks_ || has_content_) delta_.content += blanks_;
    blanks_.clear();
    drops_blanks_ = false;
    has_content_ = true;
    delta_.content += c;
  }
}

void OutputSink::drop_pending_blanks() {
  blanks_.clear();
  drops_blanks_ = true;
}

void OutputSink::finish() {
  if (!drops_blanks_) delta_.content += blanks_;
  blanks_.clear();
}

// ---- Calls ----

void OutputSink::begin_call(std::string_view name, std::string_view id) {
  ++calls_;
  drop_pending_blanks();
  has_arguments_ = false;
  CallDelta* call = current();
  if (call == nullptr) return;
  call->name = name;
  if (!id.empty() && ids_.emplace(id).second) call->id = id;
}

void OutputSink::add_arguments(std::string_view text) {
  if (text.empty()) return;
  has_arguments_ = true;
  if (CallDelta* call = current()) call->arguments += text;
}

void OutputSink::end_call() {
  if (!has_arguments_) add_arguments("{}");
}

// The last call's delta; null if the call is dropped.
CallDelta* OutputSink::current() {
  if (one_call_ && calls_ > 1) return nullptr;
  if (delta_.calls.empty() || delta_.calls.back().index != calls_ - 1) {
    delta_.calls.push_back({.index = calls_ - 1});
  }
  return &delta_.calls.back();
}

OutputDelta OutputSink::take() { return std::exchange(delta_, {}); }

}  // namespace lockstep
