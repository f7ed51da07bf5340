// SPDX-License-Identifier: Apache-2.0
#include "coordinator/openai/answers/event_source.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "coordinator/openai/answers/answer_format.h"

namespace lockstep::openai {
namespace {

void start_stream(const std::shared_ptr<http::Exchange>& exchange, const AnswerFacts& facts,
                  std::unique_ptr<EventSource> source) {
  http::Response head = http::event_stream_head();
  add_headers(facts, &head);
  exchange->stream(std::move(head), std::move(source));
}

}  // namespace

EventSource::EventSource(std::shared_ptr<const AnswerFacts> facts,
                         std::vector<std::unique_ptr<StreamReader>> readers, size_t from)
    : http::EventSource(facts->resumable), writer_(make_writer(std::move(facts))), from_(from) {
  for (std::unique_ptr<StreamReader>& log : readers) readers_.push_back({.log = std::move(log)});
}

bool EventSource::take(Reader* reader) {
  if (reader->closed || !reader->pending.empty()) return false;
  std::vector<StreamEvent> events;
  reader->closed = reader->log->read(reader->offset, &events);
  reader->offset += events.size();
  std::ranges::move(events, std::back_inserter(reader->pending));
  return !events.empty();
}

void EventSource::catch_up() {
  do {
    leave_out();
  } while (readers_[0].next() < from_ && take(&readers_[0]));
}

void EventSource::prepare() { first_state_ = make(&first_); }

void EventSource::leave_out() {
  Reader& reader = readers_[0];
  for (; !reader.pending.empty() && reader.next() < from_; reader.pending.pop_front()) {
    writer_->skip(reader.pending.front(), 0);
  }
}

void EventSource::write(size_t prompt, std::string* bytes) {
  Reader& reader = readers_[prompt];
  while (!reader.pending.empty() && bytes->size() < http::kPieceBytes) {
    writer_->write(reader.pending.front(), prompt, id(reader.next()), bytes);
    reader.pending.pop_front();
  }
}

absl::Status EventSource::failure() const {
  for (const Reader& reader : readers_) {
    if (reader.over() && !reader.log->status().ok()) return reader.log->status();
  }
  return absl::OkStatus();
}

// If events produced no bytes, reads the next ones: after a call that appends nothing, this
// function is called again only when the log gets a new event.
http::BodySource::State EventSource::make(std::string* bytes) {
  const size_t before = bytes->size();
  for (bool found = true; found && bytes->size() == before;) {
    found = false;
    for (size_t prompt = 0; prompt < readers_.size(); ++prompt) {
      found |= take(&readers_[prompt]);
      leave_out();
      write(prompt, bytes);
    }
  }
  const absl::Status status = failure();
  if (!status.ok()) {
    writer_->fail(status, bytes);
    return State::kEnd;
  }
  if (!std::ranges::all_of(readers_, &Reader::over)) return State::kMore;
  write_end(bytes);
  return State::kEnd;
}

http::BodySource::State EventSource::read(std::string* bytes) {
  const std::optional<State> first = std::exchange(first_state_, std::nullopt);
  if (!first.has_value()) return make(bytes);
  const std::string piece = std::exchange(first_, {});
  *bytes += piece;
  return *first == State::kMore && piece.empty() ? make(bytes) : *first;
}

void EventSource::write_end(std::string* bytes) {
  const size_t offset = readers_[0].offset;
  std::string left_out;
  writer_->end(id(offset), from_ <= offset ? bytes : &left_out);
  writer_->done(bytes);
}

std::optional<uint64_t> EventSource::id(size_t offset) const {
  return has_ids() ? std::optional(offset) : std::nullopt;
}

void resume_with_events(const std::shared_ptr<http::Exchange>& exchange,
                        const std::shared_ptr<const AnswerFacts>& facts,
                        std::vector<std::unique_ptr<StreamReader>> readers, size_t from) {
  for (const std::unique_ptr<StreamReader>& reader : readers) {
    reader->set_listener(exchange->waker());
  }
  auto source = std::make_unique<EventSource>(facts, std::move(readers), from);
  source->catch_up();
  source->prepare();
  start_stream(exchange, *facts, std::move(source));
}

void answer_with_events(const std::shared_ptr<http::Exchange>& exchange,
                        const std::shared_ptr<const AnswerFacts>& facts,
                        std::vector<std::unique_ptr<StreamReader>> readers) {
  for (const std::unique_ptr<StreamReader>& reader : readers) {
    reader->set_listener(exchange->waker());
  }
  begin_events(exchange, facts, std::move(readers));
}

void begin_events(const std::shared_ptr<http::Exchange>& exchange,
                  const std::shared_ptr<const AnswerFacts>& facts,
                  std::vector<std::unique_ptr<StreamReader>> readers) {
  start_stream(exchange, *facts, std::make_unique<EventSource>(facts, std::move(readers)));
}

}  // namespace lockstep::openai
