// SPDX-License-Identifier: Apache-2.0
// The facts of an answer, and the JSON that whole answers and chunks share.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "coordinator/http/exchange.h"
#include "coordinator/openai/api_request.h"
#include "coordinator/output/output_parser.h"
#include "coordinator/ports/buffered_bytes.h"
#include "coordinator/streams/stream.h"
#include "coordinator/text/tokenizer/tokenizer.h"

namespace lockstep::openai {

// The memory that one answer's facts take, as a part of the memory of all answers.
class HeldBytes {
 public:
  HeldBytes(std::shared_ptr<BufferedBytes> all, const std::string& client)
      : all_(std::move(all)), share_(all_.get()) {
    share_.belong_to(client);
  }
  BufferedBytes::Sums hold(int64_t bytes) { return share_.hold(bytes); }

 private:
  const std::shared_ptr<BufferedBytes> all_;
  BufferedBytes::Share share_;
};

// The facts that are fixed when the answer begins. The tokenizer and the formats outlive it.
struct AnswerFacts {
  Endpoint endpoint = kChat;
  std::string id;  // "chatcmpl-..."
  int64_t created = 0;
  std::string model;
  int32_t choices_per_prompt = 1;
  bool resumable = false;  // Its events have ids.
  bool include_usage = false;
  bool continuous_usage = false;  // Each chunk has the usage.
  bool include_reasoning = true;
  bool logprobs = false;
  bool prompt_logprobs = false;   // Those of prompts are shown, in a field of their own.
  bool echoes = false;            // A completion repeats its prompts, also in log-probabilities.
  std::vector<std::string> echo;  // By prompt: the text before each answer; empty: none.
  bool token_ids = false;         // The ids of prompts and choices are shown.
  bool tokens_as_ids = false;     // In log-probabilities, tokens are named "token_id:5".
  std::vector<std::vector<int32_t>> prompt_ids;  // By prompt; empty unless `token_ids`.
  std::vector<int64_t> prompt_tokens;            // By prompt.
  std::vector<int32_t> stop_ids;                 // The stop ids that the request named.
  OutputOptions output;
  std::string ignored_fields;  // See UnknownFields::take().
  std::string repeated;        // The request's fields that a response repeats: repeated_fields().
  const Tokenizer* tokenizer = nullptr;
  // Counts bytes_of() until the answer ends. Null if that is 0, or if the answer can be resumed:
  // then the memory counts with the kept streams.
  std::shared_ptr<HeldBytes> held;

  const std::string& echo_of(size_t prompt) const {
    static const std::string none;
    return echo.empty() ? none : echo[prompt];
  }
  // Whether the end token is shown, in lists of ids and of log-probabilities.
  bool shows_end_token() const { return token_ids || tokens_as_ids; }
};

// The part of the facts' memory that grows with the request, in bytes.
int64_t bytes_of(const AnswerFacts& facts);

// Adds X-Request-Id, and the header that names unknown fields.
void add_headers(const AnswerFacts& facts, http::Response* response);

struct UsageCounts {
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;  // Tokens of the prompt that needed no computation.
  int64_t completion_tokens = 0;
  int64_t reasoning_tokens = 0;  // Completion tokens that are thoughts.
};
OrderedJson usage_json(const UsageCounts& usage);

// Adds three members. "finish_reason": "stop", "length" or "tool_calls"; null: none. "stop_reason",
// as in vLLM: the text, or the token if the request named it, else null. "matched_stop", as in
// SGLang: the text, or any token that ended the answer.
void add_end(const AnswerFacts& facts, const StreamEvent& event, bool has_calls, OrderedJson* json);

// The id that the model wrote for the call, else nine letters and digits, which Mistral's templates
// need. The same call always gets the same id.
std::string call_id(const std::string& answer_id, int32_t choice, const CallDelta& call);

}  // namespace lockstep::openai
