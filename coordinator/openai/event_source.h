// SPDX-License-Identifier: Apache-2.0
// Streams of the engine as server-sent events.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/engine.h"
#include "coordinator/http/event_stream.h"
#include "coordinator/openai/event_writer.h"

namespace lockstep::openai {

// A failure is the last event. Goes away with the client: that cancels what still runs.
class EventSource final : public http::EventSource {
 public:
  EventSource(Engine* engine, std::unique_ptr<EventWriter> writer,
              std::vector<std::shared_ptr<Stream>> streams);
  ~EventSource() override;

  State read(std::string* bytes) override;

 private:
  struct Reader {
    std::shared_ptr<Stream> stream;
    size_t offset = 0;                // Events that were taken from it,
    std::deque<StreamEvent> pending;  // the last of which are these.
    bool closed = false;

    bool over() const { return closed && pending.empty(); }
  };

  void take(Reader* reader);
  void write(size_t prompt, std::string* bytes);
  absl::Status failure() const;
  // Of an event of several streams there is none.
  std::optional<uint64_t> id(size_t offset) const;

  Engine* const engine_;
  const std::unique_ptr<EventWriter> writer_;
  std::vector<Reader> readers_;
};

}  // namespace lockstep::openai
