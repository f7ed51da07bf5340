// SPDX-License-Identifier: Apache-2.0
// A request as the engine takes it: checked, tokenized, every default filled in.
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
  std::vector<int32_t> allowed_ids;             // Nothing else is drawn; empty: any id may be.
  std::vector<std::vector<int32_t>> bad_words;  // Whose last id is not drawn after the others.
};

struct Request {
  std::string id;
  std::vector<int32_t> prompt_ids;  // At least one; -1: the next row of prompt_embeds.
  // [ids that are -1, hidden]: rows in place of the embedding table's.
  std::vector<float> prompt_embeds;
  int32_t max_tokens = 128;  // 0: only the prompt is computed.
  int32_t min_tokens = 0;
  SamplingParams sampling;
  uint64_t seed = 0;  // Choice i draws with seed + i.
  std::vector<std::string> stop;
  std::vector<int32_t> stop_ids;  // End tokens of the model included, unless ignored.
  // Special tokens that the text shows nevertheless: those that begin tool calls, for instance.
  std::vector<int32_t> shown_special_ids;
  int32_t n = 1;
  int32_t logprobs = -1;             // -1: none; else how many best tokens beside the chosen one.
  std::vector<int32_t> logprob_ids;  // Of these instead of the best, if there are any.
  int32_t prompt_logprobs = -1;      // The same of the prompt's tokens, with choice 0.
  bool return_prompt_ids = false;    // In the first event of choice 0 that is not about the prompt.
  bool prompt_logits = false;        // The last prompt position's logits, in the first event.
  int64_t answer_bytes = 0;          // Kept by the answer's writer until it ends.
  std::string client;                // Who asks: an API key's name, or a connection.
  std::string endpoint;              // Where: a path of HTTP or gRPC.
  std::string traceparent;           // The client's trace, as traceparent_of() has it; "": none.
  int32_t priority = 0;              // Lower ones are served first.
  int64_t deadline_ms = 0;  // Of a steady clock; then it ends with kDeadlineExceeded. 0: none.
  std::string cache_salt;   // Cached prefixes are found by requests with the same one only.
};

}  // namespace lockstep
