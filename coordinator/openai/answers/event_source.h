// SPDX-License-Identifier: Apache-2.0
// Writes logs of events as server-sent events.
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

// A failure is the last event. The server destroys this object and its readers when the client is
// gone.
class EventSource final : public http::EventSource {
 public:
  // One reader per prompt; a resumable answer has one. `from`: the offset of the first event to
  // show; the writer skips the events before it.
  EventSource(std::shared_ptr<const AnswerFacts> facts,
              std::vector<std::unique_ptr<StreamReader>> readers, size_t from = 0);

  // Passes the available events before `from` to the writer, however long that takes. Without this,
  // the first read() does it.
  void catch_up();
  // Makes the piece that the next read() gives, so that the caller's thread does this work.
  void prepare();
  State read(std::string* bytes) override;

 private:
  struct Reader {
    std::unique_ptr<StreamReader> log;
    size_t offset = 0;                // The number of events taken from the log.
    std::deque<StreamEvent> pending;  // The last of the taken events: not yet written.
    bool closed = false;

    bool over() const { return closed && pending.empty(); }
    size_t next() const { return offset - pending.size(); }
  };

  // Moves the log's new events to `pending`, if that is empty. Returns whether there were any.
  static bool take(Reader* reader);
  State make(std::string* bytes);
  void leave_out();
  void write(size_t prompt, std::string* bytes);
  void write_end(std::string* bytes);
  absl::Status failure() const;
  // Nullopt if the answer cannot be resumed: benchmark clients accept no lines except `data: `.
  std::optional<uint64_t> id(size_t offset) const;

  const std::unique_ptr<EventWriter> writer_;
  const size_t from_;
  std::vector<Reader> readers_;
  // The piece that prepare() made.
  std::optional<State> first_state_;
  std::string first_;
};

// Continues an answer that began earlier: as answer_with_events(), but this thread, which may need
// long for it, makes the first piece.
void resume_with_events(const std::shared_ptr<http::Exchange>& exchange,
                        const std::shared_ptr<const AnswerFacts>& facts,
                        std::vector<std::unique_ptr<StreamReader>> readers, size_t from);
// Answers with the readers' events, and wakes the exchange when there are new ones.
void answer_with_events(const std::shared_ptr<http::Exchange>& exchange,
                        const std::shared_ptr<const AnswerFacts>& facts,
                        std::vector<std::unique_ptr<StreamReader>> readers);
// The same, if the readers already have listeners that wake the exchange.
void begin_events(const std::shared_ptr<http::Exchange>& exchange,
                  const std::shared_ptr<const AnswerFacts>& facts,
                  std::vector<std::unique_ptr<StreamReader>> readers);

}  // namespace lockstep::openai
