// SPDX-License-Identifier: Apache-2.0
// An answer that is sent at once, gathered from its streams.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "coordinator/openai/answers/answer_format.h"
#include "coordinator/openai/answers/choice_reader.h"
#include "coordinator/openai/answers/logprobs.h"

namespace lockstep::openai {

// One thread at a time.
class WholeAnswer {
 public:
  // `drawn`: the number of choices per prompt. Only the likeliest facts.choices_per_prompt of them
  // are shown.
  WholeAnswer(AnswerFacts facts, size_t prompts, int32_t drawn);

  void add(const StreamEvent& event, size_t prompt);
  // The number of log-probabilities added so far, without those of prompts.
  int64_t scores() const { return scores_; }
  // The approximate bytes of text(), and of the log-probabilities in it, so far.
  int64_t bytes() const;
  int64_t score_bytes() const;
  // Called after the last event of all choices.
  std::string text() const;
  const AnswerFacts& facts() const { return facts_; }

 private:
  struct Choice {
    explicit Choice(const AnswerFacts& facts) : reader(facts.output, facts.include_reasoning) {}
    ChoiceReader reader;
    OutputDelta output;
    std::vector<int32_t> token_ids;
    std::vector<std::vector<Logprob>> logprobs;  // One entry for each drawn token.
    size_t shown_logprobs = 0;                   // The number of these that the answer shows.
    StreamEvent end;  // The last event, without its text and log-probabilities.
  };
  // The choices of one prompt that are shown.
  std::vector<const Choice*> shown(const std::deque<Choice>& choices) const;
  std::string response_text() const;
  void append_choices(std::string* text) const;
  void append_choice(const Choice& choice, int32_t index, size_t prompt,
                     const CompletionLogprobs& echoed, std::string* text) const;
  void append_logprobs(const Choice& choice, size_t prompt, const CompletionLogprobs& echoed,
                       std::string* text) const;
  std::string prompt_members(size_t prompt) const;
  int64_t copies() const;
  OrderedJson message_json(const Choice& choice, int32_t index) const;

  const AnswerFacts facts_;
  std::vector<std::deque<Choice>> choices_;                         // By prompt.
  std::vector<std::vector<std::vector<Logprob>>> prompt_logprobs_;  // By prompt and token.
  std::vector<StreamEvent> events_;  // Kept only for a response with log-probabilities.
  int64_t scores_ = 0;
  int64_t text_bytes_ = 0;                   // The texts of all events.
  int64_t score_bytes_ = 0;                  // The log-probabilities of all choices.
  std::vector<int64_t> prompt_score_bytes_;  // Those of one copy of each prompt.
  UsageCounts usage_;
};

}  // namespace lockstep::openai
