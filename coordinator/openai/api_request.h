// SPDX-License-Identifier: Apache-2.0
// Converts a request's body to the engine's request, and to the options of the answer. The fields
// are those of field_table.h.
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

// The max_tokens of a request that only the end of the context limits.
inline constexpr int32_t kAllTokens = 1 << 30;

struct ApiRequest {
  Endpoint endpoint = kChat;
  v1::GenerateRequest shared;                // All fields except the prompts of a completion.
  std::vector<v1::GenerateRequest> prompts;  // One for each prompt; a chat has one, without prompt.
  int32_t n = 1;                             // The number of choices in the answer.
  bool stream = false;
  bool resumable = false;
  bool include_usage = false;
  bool continuous_usage = false;  // Each chunk has the usage.
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
  std::vector<std::string> unknown_fields;     // Names that are in no table; they were ignored.
  // The JSON field that each field of GenerateRequest was read from.
  std::map<std::string_view, const char*> names;
};

// kInvalidArgument, with the field as param: the body is not JSON, a value is out of range, or a
// known field asks for something that this server cannot do. kNotFound: the body names another
// model. to_request() checks the limits of limits.h.
absl::StatusOr<ApiRequest> parse_request(Endpoint endpoint, const std::string& body,
                                         const Model& model);
// Rewrites an error of to_request() or of the engine. The error names fields of GenerateRequest;
// the result names the JSON fields from which they were read.
absl::Status in_json_words(const absl::Status& status, const ApiRequest& request);

// kNotFound: the model does not have this name.
absl::Status check_model_name(const Model& model, const std::string& name);

}  // namespace lockstep::openai
