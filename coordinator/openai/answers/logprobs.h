// SPDX-License-Identifier: Apache-2.0
// Writes log-probabilities of tokens in the form of each API.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "coordinator/openai/answers/answer_format.h"
#include "coordinator/streams/stream.h"
#include "coordinator/text/detokenizer/token_texts.h"

namespace lockstep::openai {

// Each token has a list: the token itself, then its alternatives.
using TokenLogprobs = std::span<const std::vector<Logprob>>;

// The log-probabilities of an event that the answer shows. Those of the token that ends the text
// are left out, unless the answer shows token ids.
TokenLogprobs shown_logprobs(const AnswerFacts& facts, const StreamEvent& event);

// The approximate bytes of JSON that these log-probabilities of a token take in an answer.
int64_t logprob_bytes(const AnswerFacts& facts, const std::vector<Logprob>& token);

// One token of a chat or a response.
struct TokenEntry {
  std::string token;  // Its name or its text.
  std::string json;
};

// The lists of a completion's "logprobs": texts of JSON, without brackets.
struct CompletionLogprobs {
  std::string text_offset;
  std::string token_logprobs;
  std::string tokens;
  std::string top_logprobs;

  void append(const CompletionLogprobs& more);
  std::string json() const;
};

// Writes the log-probabilities of one text as JSON, some tokens at a time, in order. One thread at
// a time; the facts outlive it.
class LogprobWriter {
 public:
  // A prompt's first token has no log-probability, because nothing is before it. An answer's text
  // begins after the echo of its prompt.
  enum class TokenSource { kPrompt, kAnswer };
  LogprobWriter(const AnswerFacts& facts, TokenSource of, size_t prompt = 0);

  // The entries of a response's list.
  std::vector<TokenEntry> entries(TokenLogprobs tokens);
  // The value of a choice's "logprobs".
  std::string chat(TokenLogprobs tokens);
  CompletionLogprobs completion(TokenLogprobs tokens);
  // A list of a prompt's log-probabilities as in vLLM: for each token an object whose keys are
  // token ids, the token's own id first. Only the best tokens have a rank.
  std::string prompt(TokenLogprobs tokens);
  // Takes tokens that are not written: later texts and offsets depend on them.
  void skip(TokenLogprobs tokens);

 private:
  // The texts of one token and of its alternatives at the same position in the text.
  std::vector<TokenText> texts_of(const std::vector<Logprob>& token);
  std::string name(int32_t id, const TokenText& text) const;
  // An object without its closing brace.
  std::string open_entry(const Logprob& logprob, const TokenText& text) const;
  TokenEntry entry(const std::vector<Logprob>& token);
  void add_completion(const std::vector<Logprob>& token, CompletionLogprobs* lists);

  const AnswerFacts& facts_;
  const int64_t offset_;
  bool has_begun_;
  std::optional<TokenTexts> texts_;  // Null without a tokenizer.
};

}  // namespace lockstep::openai
