// SPDX-License-Identifier: Apache-2.0
// A request's body -> what the engine is asked for, and how the answer is to look. Fields are those
// of field_table.h.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/json.h"
#include "coordinator/model/model.h"
#include "proto/generate.pb.h"

namespace lockstep::openai {

enum Endpoint : unsigned {
  kCompletions = 1,
  kChat = 2,
  kResponses = 4,
  kTokenize = 8,
  kDetokenize = 16,
};

// max_tokens of a request that ends with the context alone.
inline constexpr int32_t kAllTokens = 1 << 30;

struct ApiRequest {
  Endpoint endpoint = kChat;
  v1::GenerateRequest shared;                // All but the prompts of a completion.
  std::vector<v1::GenerateRequest> prompts;  // These alone; of a conversation one without fields.
  int32_t n = 1;                             // Of these the answer has so many.
  bool stream = false;
  bool resumable = false;
  bool include_usage = false;
  bool continuous_usage = false;  // In each chunk.
  bool include_reasoning = true;
  bool echo = false;
  bool logprobs = false;
  bool prompt_logprobs = false;
  bool token_ids = false;      // See AnswerFacts.
  bool tokens_as_ids = false;  // See AnswerFacts.
  bool parses_tools = false;
  bool one_call = false;
  bool skips_special = true;  // Special tokens are not in the text.
  std::string repeated;       // For kResponses: repeated_fields().
  bool return_token_strs = false;
  std::optional<std::vector<int32_t>> tokens;  // For kDetokenize.
  std::vector<std::string> unknown_fields;     // Names that no table has, which were passed over.
  // By GenerateRequest's field, the JSON field that it was read from.
  std::map<std::string_view, const char*> names;
};

// kInvalidArgument, with the field as param: no JSON, a value out of its range, or one that is
// known and that this server can't do, by its name; kNotFound: another model's name. What limits.h
// has is checked by to_request().
absl::StatusOr<ApiRequest> parse_request(Endpoint endpoint, const std::string& body,
                                         const Model& model);
// A refusal of to_request() or the engine, which names GenerateRequest's fields, in the words of
// the JSON that it was read from.
absl::Status in_json_words(const absl::Status& status, const ApiRequest& request);

// kNotFound: the model is not called so.
absl::Status check_model_name(const Model& model, const std::string& name);

}  // namespace lockstep::openai
