// SPDX-License-Identifier: Apache-2.0
// Writes a stream's events as chunks of OpenAI's API, one after the other. The chunks of an event
// depend only on the facts and on the earlier events.
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

// An event becomes zero or more chunks, each with one choice. A chat's choice begins with a chunk
// that has only its role, and each choice ends with a chunk that has only the finish reason. The
// stream ends with the usage, if the request asks for it, and [DONE].
class ChunkWriter final : public EventWriter {
 public:
  explicit ChunkWriter(std::shared_ptr<const AnswerFacts> facts);

  void write(const StreamEvent& event, size_t prompt, std::optional<uint64_t> id,
             std::string* bytes) override;
  void skip(const StreamEvent& event, size_t prompt) override;
  void end(std::optional<uint64_t> id, std::string* bytes) override;
  void done(std::string* bytes) override;
  void fail(const absl::Status& status, std::string* bytes) override;

  // The chunks of an event; none if nothing of it is shown, for instance a part of a tag.
  std::vector<std::string> chunks(const StreamEvent& event, size_t prompt);
  // The last chunk, with the usage of all choices, if the request asks for it.
  std::optional<std::string> usage_chunk() const;

 private:
  struct Choice {
    Choice(const AnswerFacts& facts, size_t prompt);
    ChoiceReader reader;
    LogprobWriter logprobs;
    bool begun = false;
    int64_t tokens = 0;
  };
  // The new part of a choice in one chunk.
  struct Piece {
    const char* key;  // "text", "delta"
    OrderedJson value;
    bool is_role = false;           // A role or an echo: it shows none of the event's tokens.
    std::string logprobs = "null";  // JSON.
    OrderedJson end = {{"finish_reason", nullptr}};
    int64_t tokens = 0;  // The choice's tokens so far.
    std::vector<int32_t> token_ids = {};
    bool is_first = false;  // The choice's first chunk.
  };

  // The pieces of an event of one choice; without their log-probabilities if they are not `shown`.
  std::vector<Piece> pieces_of(const StreamEvent& event, size_t prompt, bool shown);
  int32_t first_index(size_t prompt) const {
    return static_cast<int32_t>(prompt) * facts_->choices_per_prompt;
  }
  int32_t index_of(const StreamEvent& event, size_t prompt) const {
    return first_index(prompt) + event.index;
  }
  LogprobWriter& echo_of(size_t prompt);
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
  const std::string head_;  // The beginning of every chunk.
  std::map<int32_t, Choice> choices_;
  std::map<size_t, LogprobWriter> echoes_;  // By prompt.
  UsageCounts usage_;
};

}  // namespace lockstep::openai
