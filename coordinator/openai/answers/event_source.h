// SPDX-License-Identifier: Apache-2.0
// Logs of events as server-sent events.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/http/event_stream.h"
#include "coordinator/openai/answers/event_writer.h"
#include "coordinator/streams/stream_reader.h"

namespace lockstep::openai {

// A failure is the last event. Goes away with the client, and its readers with it.
class EventSource final : public http::EventSource {
 public:
  // One reader per prompt; a resumable answer has one. `from`: the offset of the first event that
  // is shown of such an answer; the writer is given those before, whose bytes are left out.
  EventSource(std::shared_ptr<const AnswerFacts> facts,
              std::vector<std::unique_ptr<StreamReader>> readers, size_t from = 0);

  // Gives the writer what is left out, as far as it is there: read() would, however long it takes.
  void catch_up();
  State read(std::string* bytes) override;

 private:
  struct Reader {
    std::unique_ptr<StreamReader> log;
    size_t offset = 0;                // Events that were taken from it,
    std::deque<StreamEvent> pending;  // the last of which are these.
    bool closed = false;

    bool over() const { return closed && pending.empty(); }
    size_t next() const { return offset - pending.size(); }
  };

  // Whether there was something to take.
  static bool take(Reader* reader);
  void leave_out();
  void write(size_t prompt, std::string* bytes);
  void write_end(std::string* bytes);
  absl::Status failure() const;
  // None where the answer cannot be resumed: benchmark clients know no line but `data: `.
  std::optional<uint64_t> id(size_t offset) const;

  const std::unique_ptr<EventWriter> writer_;
  const size_t from_;
  std::vector<Reader> readers_;
};

// Answers with these events, and wakes the exchange at new ones. May take long where `from` is far
// behind.
void answer_with_events(const std::shared_ptr<http::Exchange>& exchange,
                        const std::shared_ptr<const AnswerFacts>& facts,
                        std::vector<std::unique_ptr<StreamReader>> readers, size_t from = 0);
// The same where somebody listens to the readers already, and wakes the exchange.
void begin_events(const std::shared_ptr<http::Exchange>& exchange,
                  const std::shared_ptr<const AnswerFacts>& facts,
                  std::vector<std::unique_ptr<StreamReader>> readers, size_t from = 0);

}  // namespace lockstep::openai
