// SPDX-License-Identifier: Apache-2.0
// Checks for any stream, cut anywhere, and for any offset that a client sends, for the fuzzer and
// its unit test. An input has one stream and one cut of it.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "coordinator/openai/answers/answer_format.h"
#include "coordinator/openai/answers/event_source.h"
#include "coordinator/openai/answers/resumption.h"
#include "coordinator/openai/error.h"
#include "coordinator/streams/event_log.h"
#include "tests/fuzz/draw.h"

namespace lockstep::openai {

inline std::shared_ptr<const AnswerFacts> draw_facts(Draw* draw) {
  const unsigned form = draw->number();
  AnswerFacts facts = {.endpoint = form % 3 == 0   ? kCompletions
                                   : form % 3 == 1 ? kChat
                                                   : kResponses,
                       .id = "resp_1",
                       .created = 5,
                       .model = "m",
                       .resumable = true,
                       .include_usage = (form & 8) != 0,
                       .repeated = "{}"};
  if (facts.endpoint == kCompletions && (form & 16) != 0) facts.echo = {"echo"};
  if ((form & 32) != 0) facts.output.thoughts = find_format("think");
  if ((form & 64) != 0) facts.output.tools = find_format("hermes");
  return std::make_shared<const AnswerFacts>(std::move(facts));
}

// An event that has only a text.
inline StreamEvent draw_event(unsigned kind, Draw* draw) {
  constexpr const char* kTags[] = {"",
                                   "<think>",
                                   "</think>",
                                   "<tool_call>",
                                   "</tool_call>",
                                   "{\"name\": \"f\", \"arguments\": {",
                                   "}}"};
  StreamEvent event = {.text = kTags[kind % 7]};
  if (kind % 7 == 0) event.text = draw->text(20);
  // The engine gives valid UTF-8.
  std::erase_if(event.text, [](char c) { return static_cast<unsigned char>(c) >= 0x80; });
  return event;
}

inline std::string read_from(size_t from, const std::shared_ptr<EventLog>& log,
                             const std::shared_ptr<const AnswerFacts>& facts) {
  std::vector<std::unique_ptr<StreamReader>> readers;
  readers.push_back(log->open(from).value());
  EventSource source(facts, std::move(readers), from);
  source.catch_up();
  std::string bytes;
  while (source.read(&bytes) == http::BodySource::State::kMore) {
  }
  return bytes;
}

// The end of the last whole event with an id, and that id plus 1.
struct Whole {
  size_t bytes = 0;
  size_t next = 0;
};
inline Whole whole_of(std::string_view received) {
  Whole whole;
  size_t begin = 0;
  for (size_t end = 0; (end = received.find("\n\n", begin)) != received.npos; begin = end + 2) {
    if (!received.substr(begin).starts_with("id: ")) continue;
    whole = {.bytes = end + 2, .next = std::stoul(std::string(received.substr(begin + 4, 18))) + 1};
  }
  return whole;
}

// Checks that a cut stream is completed by reading from the cut on, even if it was cut before its
// first event. The stream has as many events as the bytes allow, so that short inputs cost little.
inline void check_cut(Draw* draw) {
  constexpr size_t kMaxEvents = 10;
  const auto facts = draw_facts(draw);
  // The place of the cut, in 65536ths of the stream.
  const size_t high = draw->number(), cut = high * 256 + draw->number();
  const bool fails = draw->number() % 4 == 0;
  const auto log = std::make_shared<EventLog>();
  std::vector<std::unique_ptr<StreamReader>> readers;
  readers.push_back(log->open(0).value());
  EventSource live(facts, std::move(readers));
  std::string uncut;
  size_t events = 0;
  for (bool is_last = false; !is_last;) {
    const unsigned kind = draw->number();
    StreamEvent event = draw_event(kind, draw);
    is_last = ++events == kMaxEvents || draw->is_over();
    if (is_last) event.finish_reason = FinishReason::kStop;
    log->append(std::move(event));
    if (kind / 7 % 2 == 0) live.read(&uncut);
  }
  log->close(fails ? absl::UnavailableError("rank 1") : absl::OkStatus());
  while (live.read(&uncut) == http::BodySource::State::kMore) {
  }
  const Whole whole = whole_of(std::string_view(uncut).substr(0, cut * (uncut.size() + 1) >> 16));
  LOCKSTEP_CHECK(uncut.substr(0, whole.bytes) + read_from(whole.next, log, facts) == uncut);
  LOCKSTEP_CHECK(!log->open(events + 2).ok());
}

// Checks that a client's value is an offset, or is refused as the client's error.
inline void check_offset(Draw* draw) {
  http::Request request;
  request.query = draw->text(40);
  if (draw->number() % 2 == 0) request.headers.emplace_back("Last-Event-ID", draw->text(30));
  const absl::StatusOr<size_t> offset = resume_offset(request);
  LOCKSTEP_CHECK(offset.value_or(0) <= 1'000'000'000'000'000'000);
  if (offset.ok()) return;
  const http::Response response = error_response(offset.status());
  LOCKSTEP_CHECK(response.status == 400);
  LOCKSTEP_CHECK(offset.status().message().find('\n') == absl::string_view::npos);
}

inline void check_resume_input(std::string_view bytes) {
  Draw draw(bytes);
  check_offset(&draw);
  check_cut(&draw);
}

}  // namespace lockstep::openai
