// SPDX-License-Identifier: Apache-2.0
// A stream's events as chunks of OpenAI's API, one after the other: what an event becomes depends
// on the facts and on the events before it, on nothing else.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/openai/answers/answer_format.h"
#include "coordinator/openai/answers/choice_reader.h"
#include "coordinator/openai/answers/event_writer.h"
#include "coordinator/openai/answers/logprobs.h"

namespace lockstep::openai {

// An event is some chunks of one choice each, or none. A choice of chat begins with its role alone,
// and each choice ends with a chunk that has nothing but the reason. After the last one comes the
// usage, if it was asked for, and [DONE].
class ChunkWriter final : public EventWriter {
 public:
  explicit ChunkWriter(std::shared_ptr<const AnswerFacts> facts);

  void write(const StreamEvent& event, size_t prompt, std::optional<uint64_t> id,
             std::string* bytes) override;
  void end(std::optional<uint64_t> id, std::string* bytes) override;
  void done(std::string* bytes) override;
  void fail(const absl::Status& status, std::string* bytes) override;

  // Those of an event; none where it says nothing that is shown, such as a part of a tag.
  std::vector<std::string> chunks(const StreamEvent& event, size_t prompt);
  // The last one, with the usage of all, where it was asked for.
  std::optional<std::string> usage_chunk() const;

 private:
  struct Choice {
    Choice(const AnswerFacts& facts, size_t prompt);
    ChoiceReader reader;
    LogprobWriter logprobs;
    bool begun = false;
    int64_t tokens = 0;
  };
  // The news of a choice in one chunk.
  struct Piece {
    const char* key;  // "text", "delta"
    OrderedJson value;
    bool is_role = false;           // Or an echo: nothing of the event's tokens.
    std::string logprobs = "null";  // JSON.
    OrderedJson end = {{"finish_reason", nullptr}};
    int64_t tokens = 0;  // Of the choice so far.
    std::vector<int32_t> token_ids = {};
    bool is_first = false;  // The choice's first chunk.
  };

  bool shows_tokens(const StreamEvent& event) const;
  std::vector<std::string> prompt_chunks(const StreamEvent& event, size_t prompt);
  std::vector<Piece> chat_pieces(const StreamEvent& event, int32_t index, Choice* choice) const;
  std::vector<Piece> text_pieces(const StreamEvent& event, size_t prompt, Choice* choice) const;
  Piece last_piece(const StreamEvent& event, const Choice& choice) const;
  OrderedJson delta(OrderedJson members, const std::string& thought = {}) const;
  std::string completion_text(const StreamEvent& event, size_t prompt, const Choice& choice) const;
  void count(const StreamEvent& event, Choice* choice);
  std::string chunk_of(const Piece& piece, int32_t index, size_t prompt) const;

  const std::shared_ptr<const AnswerFacts> facts_;
  const std::string head_;  // What all chunks begin with.
  std::map<int32_t, Choice> choices_;
  std::map<size_t, LogprobWriter> echoes_;  // By prompt.
  UsageCounts usage_;
};

}  // namespace lockstep::openai
