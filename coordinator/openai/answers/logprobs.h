// SPDX-License-Identifier: Apache-2.0
// Writes log-probabilities of tokens in the form of each API.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "coordinator/openai/answers/answer_format.h"
#include "coordinator/streams/stream.h"
#include "coordinator/text/detokenizer/token_texts.h"

namespace lockstep::openai {

// Each token has a list: the token itself, then its alternatives.
using TokenLogprobs = std::span<const std::vector<Logprob>>;

// The log-probabilities of an event that the answer shows. Those of the token that ends the text
// are left out, unless the answer shows token ids.
TokenLogprobs shown_logprobs(const AnswerFacts& facts, const StreamEvent& event);

// Writes the log-probabilities of one text, some tokens at a time, in order. One thread at a time;
// the facts outlive it.
class LogprobWriter {
 public:
  // A prompt's first token has no log-probability, because nothing is before it. An answer's text
  // begins after the echo of its prompt.
  enum class TokenSource { kPrompt, kAnswer };
  LogprobWriter(const AnswerFacts& facts, TokenSource of, size_t prompt = 0);

  // A list of objects, as in chat and responses.
  OrderedJson entries(TokenLogprobs tokens);
  // The value of a choice's "logprobs".
  OrderedJson chat(TokenLogprobs tokens);
  OrderedJson completion(TokenLogprobs tokens);
  // A prompt's log-probabilities as in vLLM: for each token an object whose keys are token ids, the
  // token's own id first. Only the best tokens have a rank.
  OrderedJson prompt(TokenLogprobs tokens);
  // Takes tokens that are not written: later texts and offsets depend on them.
  void skip(TokenLogprobs tokens);

 private:
  // The texts of one token and of its alternatives at the same position in the text.
  std::vector<TokenText> texts_of(const std::vector<Logprob>& token);
  std::string name(int32_t id, const TokenText& text) const;
  OrderedJson entry(const Logprob& logprob, const TokenText& text) const;
  void add_completion(const std::vector<Logprob>& token, OrderedJson* json);

  const AnswerFacts& facts_;
  const int64_t offset_;
  bool has_begun_;
  std::optional<TokenTexts> texts_;  // Null without a tokenizer.
};

// Appends the lists in `more` to those of the same names in `logprobs`, which may be null.
void append_logprobs(OrderedJson more, OrderedJson* logprobs);

}  // namespace lockstep::openai
