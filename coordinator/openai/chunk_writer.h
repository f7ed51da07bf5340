// SPDX-License-Identifier: Apache-2.0
// A stream's events as chunks of OpenAI's API, one after the other: what an event becomes depends
// on the facts and on the events before it, on nothing else.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "coordinator/openai/answer_format.h"
#include "coordinator/openai/event_writer.h"
#include "coordinator/openai/logprobs.h"

namespace lockstep::openai {

// An event is one chunk, or none. After them comes the usage, if it was asked for, and [DONE].
class ChunkWriter final : public EventWriter {
 public:
  explicit ChunkWriter(std::shared_ptr<const AnswerFacts> facts);

  void write(const StreamEvent& event, size_t prompt, std::optional<uint64_t> id,
             std::string* bytes) override;
  void end(std::optional<uint64_t> id, std::string* bytes) override;
  void done(std::string* bytes) override;
  void fail(const absl::Status& status, std::string* bytes) override;

  // The chunk of an event; nothing where it says nothing that is shown, such as a part of a tag.
  std::optional<std::string> chunk(const StreamEvent& event, size_t prompt);
  // The last one, with the usage of all, where it was asked for.
  std::optional<std::string> usage_chunk() const;

 private:
  struct Choice {
    Choice(const AnswerFacts& facts, size_t prompt);
    OutputParser parser;
    LogprobWriter logprobs;
    bool begun = false;
  };

  std::string prompt_chunk(const StreamEvent& event, size_t prompt);
  std::string chunk_of(const std::string& choices, const std::vector<int32_t>* prompt_ids) const;
  void add_token_ids(const StreamEvent& event, size_t prompt, const Choice& choice,
                     OrderedJson* json) const;
  OrderedJson chat_delta(const StreamEvent& event, int32_t index, Choice* choice) const;
  std::string completion_text(const StreamEvent& event, size_t prompt, const Choice& choice) const;

  const std::shared_ptr<const AnswerFacts> facts_;
  const std::string head_;  // What all chunks begin with.
  std::map<int32_t, Choice> choices_;
  std::map<size_t, LogprobWriter> echoes_;  // By prompt.
  UsageCounts usage_;
};

}  // namespace lockstep::openai
