// SPDX-License-Identifier: Apache-2.0
// A request in the engine's form: checked, tokenized, with every default filled in.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace lockstep {

struct SamplingParams {
  float temperature = 1;  // 0: greedy.
  int32_t top_k = 0;      // 0: off.
  float top_p = 1;
  float min_p = 0;
  float repetition_penalty = 1;
  float presence_penalty = 0;
  float frequency_penalty = 0;
  std::map<int32_t, float> logit_bias;
  std::vector<int32_t> allowed_ids;  // If not empty, only these ids may be drawn.
  // The last id of a bad word is not drawn right after the word's other ids.
  std::vector<std::vector<int32_t>> bad_words;
};

struct EngineRequest {
  std::string id;
  std::vector<int32_t> prompt_ids;  // At least one; -1: the next row of prompt_embeds.
  // [ids that are -1, hidden]: rows that replace the embedding table's.
  std::vector<float> prompt_embeds;
  int32_t max_tokens = 128;  // 0: only the prompt is computed.
  int32_t min_tokens = 0;
  SamplingParams sampling;
  uint64_t seed = 0;  // Choice i draws with seed + i.
  std::vector<std::string> stop;
  std::vector<int32_t> stop_ids;  // The model's end tokens included, unless ignored.
  // Special tokens that the text includes anyway, for instance those that begin tool calls.
  std::vector<int32_t> shown_special_ids;
  int32_t n = 1;
  int32_t logprobs = -1;  // -1: none; else the number of best tokens in addition to the chosen one.
  std::vector<int32_t> logprob_ids;  // If not empty, these ids replace the best tokens.
  int32_t prompt_logprobs = -1;      // Like `logprobs`, for prompt tokens; sent with choice 0.
  bool return_prompt_ids = false;    // Choice 0's first event after the scores has the ids.
  bool prompt_logits = false;        // Choice 0's first event has the prompt's last logits.
  int64_t answer_bytes = 0;          // Memory that the answer's writer needs until the end.
  std::string client;                // An API key's name, or the connection's address and port.
  std::string endpoint;              // The path of the HTTP or gRPC call.
  std::string traceparent;  // The client's trace, as returned by traceparent_of(); "": none.
  int32_t priority = 0;     // Requests with a lower number are served first.
  int64_t deadline_ms = 0;  // Steady clock; the request then ends with kDeadlineExceeded. 0: none.
  std::string cache_salt;   // Cached prefixes are shared only by requests with the same salt.
};

}  // namespace lockstep
