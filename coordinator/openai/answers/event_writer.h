// SPDX-License-Identifier: Apache-2.0
// What a stream's events become on the wire: one form per API.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "coordinator/streams/stream.h"

namespace lockstep::openai {

// Server-sent events. What is written depends on what is fixed when the answer begins and on the
// events so far, on nothing else.
class EventWriter {
 public:
  virtual ~EventWriter() = default;

  // Appends what an event becomes; nothing where it says nothing that is shown. `id`: its offset in
  // the stream's log, where the answer is resumable.
  virtual void write(const StreamEvent& event, size_t prompt, std::optional<uint64_t> id,
                     std::string* bytes) = 0;
  // All choices are finished; `id`: how many events there were.
  virtual void end(std::optional<uint64_t> id, std::string* bytes) = 0;
  // Behind the end.
  virtual void done(std::string* bytes) = 0;
  // In place of the end.
  virtual void fail(const absl::Status& status, std::string* bytes) = 0;
};

struct AnswerFacts;
// In the form of the endpoint.
std::unique_ptr<EventWriter> make_writer(std::shared_ptr<const AnswerFacts> facts);

}  // namespace lockstep::openai
