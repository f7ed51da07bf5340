// SPDX-License-Identifier: Apache-2.0
// Streams of the engine as server-sent events, in OpenAI's chunks.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "coordinator/engine.h"
#include "coordinator/http/exchange.h"
#include "coordinator/openai/chunk_writer.h"

namespace lockstep::openai {

// An event's `id:` is its offset in the stream's log, where there is one stream alone. A failure is
// the last event, in place of "[DONE]". Goes away with the client: that cancels what still runs.
class EventSource final : public http::BodySource {
 public:
  EventSource(Engine* engine, AnswerFacts facts, std::vector<std::shared_ptr<Stream>> streams);
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

  Engine* const engine_;
  ChunkWriter writer_;
  std::vector<Reader> readers_;
};

}  // namespace lockstep::openai
