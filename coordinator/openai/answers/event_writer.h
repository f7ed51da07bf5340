// SPDX-License-Identifier: Apache-2.0
// Writes a stream's events in the form of an API.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "coordinator/streams/stream.h"

namespace lockstep::openai {

// Server-sent events. The bytes depend only on the facts fixed when the answer begins and on the
// events so far.
class EventWriter {
 public:
  virtual ~EventWriter() = default;

  // Appends the bytes of an event; appends nothing if no part of the event is shown. `id`: the
  // event's offset in the stream's log, if the answer is resumable.
  virtual void write(const StreamEvent& event, size_t prompt, std::optional<uint64_t> id,
                     std::string* bytes) = 0;
  // Takes an event that the client has already: later events depend on it. Much faster than
  // write().
  virtual void skip(const StreamEvent& event, size_t prompt) = 0;
  // Called when all choices are finished; `id`: the number of events.
  virtual void end(std::optional<uint64_t> id, std::string* bytes) = 0;
  // Called after end().
  virtual void done(std::string* bytes) = 0;
  // Called instead of end().
  virtual void fail(const absl::Status& status, std::string* bytes) = 0;
};

struct AnswerFacts;
// Makes the writer for the endpoint.
std::unique_ptr<EventWriter> make_writer(std::shared_ptr<const AnswerFacts> facts);

}  // namespace lockstep::openai
