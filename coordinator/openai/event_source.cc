// SPDX-License-Identifier: Apache-2.0
#include "coordinator/openai/event_source.h"

#include <algorithm>

namespace lockstep::openai {
EventSource::EventSource(Engine* engine, std::unique_ptr<EventWriter> writer,
                         std::vector<std::shared_ptr<Stream>> streams)
    : engine_(engine), writer_(std::move(writer)) {
  for (std::shared_ptr<Stream>& stream : streams) readers_.push_back({.stream = std::move(stream)});
}

EventSource::~EventSource() {
  for (const Reader& reader : readers_) {
    if (!reader.closed) engine_->cancel(reader.stream);
  }
}

void EventSource::take(Reader* reader) {
  if (reader->closed || !reader->pending.empty()) return;
  std::vector<StreamEvent> events;
  reader->closed = reader->stream->read(reader->offset, &events);
  reader->offset += events.size();
  std::ranges::move(events, std::back_inserter(reader->pending));
}

void EventSource::write(size_t prompt, std::string* bytes) {
  Reader& reader = readers_[prompt];
  while (!reader.pending.empty() && bytes->size() < http::kPieceBytes) {
    writer_->write(reader.pending.front(), prompt, id(reader.offset - reader.pending.size()),
                   bytes);
    reader.pending.pop_front();
  }
}

absl::Status EventSource::failure() const {
  for (const Reader& reader : readers_) {
    if (reader.over() && !reader.stream->status().ok()) return reader.stream->status();
  }
  return absl::OkStatus();
}

http::BodySource::State EventSource::read(std::string* bytes) {
  for (size_t prompt = 0; prompt < readers_.size(); ++prompt) {
    take(&readers_[prompt]);
    write(prompt, bytes);
  }
  const absl::Status status = failure();
  if (!status.ok()) {
    writer_->fail(status, bytes);
    return State::kEnd;
  }
  if (!std::ranges::all_of(readers_, &Reader::over)) return State::kMore;
  writer_->end(id(readers_[0].offset), bytes);
  return State::kEnd;
}

std::optional<uint64_t> EventSource::id(size_t offset) const {
  return readers_.size() == 1 ? std::optional(offset) : std::nullopt;
}

}  // namespace lockstep::openai
