// SPDX-License-Identifier: Apache-2.0
// What an answer is made of, and the shapes that whole answers and chunks share.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "coordinator/openai/api_request.h"
#include "coordinator/output/output_parser.h"
#include "coordinator/stream.h"
#include "coordinator/text/detokenizer.h"
#include "coordinator/text/tokenizer.h"

namespace lockstep::openai {

// Fixed when the answer begins. The tokenizer and the formats outlive it.
struct AnswerFacts {
  Endpoint endpoint = kChat;
  std::string id;  // "chatcmpl-..."
  int64_t created = 0;
  std::string model;
  int32_t choices_per_prompt = 1;
  bool resumable = false;  // Its events have ids.
  bool include_usage = false;
  bool logprobs = false;
  bool prompt_logprobs = false;   // In a field of their own.
  bool echoes = false;            // Prompts, with their log-probabilities if there are any.
  std::vector<std::string> echo;  // By prompt; empty: none.
  OutputOptions output;
  std::string repeated;  // What a response repeats of its request, as repeated_fields() has it.
  const Tokenizer* tokenizer = nullptr;

  const std::string& echo_of(size_t prompt) const {
    static const std::string none;
    return echo.empty() ? none : echo[prompt];
  }
};

struct UsageCounts {
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;  // Of the prompt's, that need not be computed.
  int64_t completion_tokens = 0;
};
OrderedJson usage_json(const UsageCounts& usage);

// "stop", "length", "tool_calls"; null for none.
OrderedJson finish_reason_json(FinishReason reason, bool has_calls);

// The model's own id, else nine letters and digits, which templates of Mistral need; the same for
// the same call.
std::string call_id(const std::string& answer_id, int32_t choice, const CallDelta& call);

// Log-probabilities of one choice's tokens: of chat, or of a completion, where a token's place in
// the text counts on from `*offset` characters.
OrderedJson logprobs_json(const AnswerFacts& facts, const std::vector<std::vector<Logprob>>& tokens,
                          int64_t* offset);
int64_t count_characters(std::string_view text);

// Where the next token of a prompt that is echoed is.
struct EchoPlace {
  explicit EchoPlace(const AnswerFacts& facts);
  std::optional<Detokenizer> detokenizer;  // None without a tokenizer.
  int64_t tokens = 0;
  int64_t offset = 0;  // In characters of the echo.
};
// Of some tokens of a prompt, which follow those before; null for the first one.
OrderedJson echo_logprobs_json(const AnswerFacts& facts,
                               const std::vector<std::vector<Logprob>>& tokens, EchoPlace* place);
// Of all tokens of a prompt, as vLLM gives them: for each an object by token id, the prompt's own
// first; a rank is known of the best ones alone. Null for the first token.
OrderedJson prompt_logprobs_json(const AnswerFacts& facts,
                                 const std::vector<std::vector<Logprob>>& tokens);
// Appends what follows to what came before, which may be null.
void append_logprobs(OrderedJson more, OrderedJson* logprobs);

}  // namespace lockstep::openai
