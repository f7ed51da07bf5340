// SPDX-License-Identifier: Apache-2.0
#include "coordinator/openai/event_source.h"

#include <algorithm>
#include <optional>

#include "coordinator/openai/error.h"

namespace lockstep::openai {
namespace {

constexpr size_t kPieceBytes = 64 << 10;

void append_event(const std::string& data, std::optional<size_t> id, std::string* bytes) {
  if (id.has_value()) *bytes += "id: " + std::to_string(*id) + "\n";
  *bytes += "data: " + data + "\n\n";
}

}  // namespace

EventSource::EventSource(Engine* engine, AnswerFacts facts,
                         std::vector<std::shared_ptr<Stream>> streams)
    : engine_(engine), writer_(std::move(facts)) {
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
  while (!reader.pending.empty() && bytes->size() < kPieceBytes) {
    const std::optional<std::string> chunk = writer_.chunk(reader.pending.front(), prompt);
    const size_t offset = reader.offset - reader.pending.size();
    if (chunk.has_value()) {
      append_event(*chunk, readers_.size() == 1 ? std::optional(offset) : std::nullopt, bytes);
    }
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
    append_event(dump(error_body(status)), std::nullopt, bytes);
    return State::kEnd;
  }
  if (!std::ranges::all_of(readers_, &Reader::over)) return State::kMore;
  if (const std::optional<std::string> usage = writer_.usage_chunk()) {
    append_event(*usage, readers_.size() == 1 ? std::optional(readers_[0].offset) : std::nullopt,
                 bytes);
  }
  *bytes += "data: [DONE]\n\n";
  return State::kEnd;
}

}  // namespace lockstep::openai
