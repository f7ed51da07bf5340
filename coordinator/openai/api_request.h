// SPDX-License-Identifier: Apache-2.0
// A request's body -> what the engine is asked for, and how the answer is to look. One table says
// which fields there are and where each goes; docs/http.md's is made from it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/json.h"
#include "coordinator/model.h"
#include "proto/generate.pb.h"

namespace lockstep::openai {

enum Endpoint : unsigned { kCompletions = 1, kChat = 2, kResponses = 4 };

struct ApiRequest {
  Endpoint endpoint = kChat;
  v1::GenerateRequest shared;                // All but the prompts of a completion.
  std::vector<v1::GenerateRequest> prompts;  // These alone; of a conversation one without fields.
  int32_t n = 1;                             // Of these the answer has so many.
  bool stream = false;
  bool resumable = false;
  bool include_usage = false;
  bool echo = false;
  bool logprobs = false;
  bool prompt_logprobs = false;
  bool token_ids = false;      // See AnswerFacts.
  bool tokens_as_ids = false;  // See AnswerFacts.
  bool parses_tools = false;
  bool one_call = false;
  bool skips_special = true;  // Special tokens are not in the text.
  std::string repeated;       // Of kResponses: repeated_fields().
  int unknown_fields = 0;     // Which were ignored.

  // Prompt `index` with what all share. One at a time: a small body may have many prompts and large
  // fields.
  v1::GenerateRequest message(size_t index) const;
};

// A JSON field of a request.
struct Field {
  using Read = absl::Status (*)(const Field& field, const OrderedJson& value, ApiRequest* request);

  const char* name;
  unsigned endpoints;
  const char* grpc;  // GenerateRequest's field that it becomes; "": the HTTP interface's own.
  Read read;         // A field that is null counts as not given.
  const char* note;
};

// In the order in which they are read.
std::span<const Field> fields();
// The table of docs/http.md.
std::string parity_table();

// kInvalidArgument, with the field as param: no JSON, a value out of its range, or one that is
// known and that this server can't do, by its name; kNotFound: another model's name. Unknown fields
// are counted, nothing more. What limits.h has is checked by to_request().
absl::StatusOr<ApiRequest> parse_request(Endpoint endpoint, const std::string& body,
                                         const Model& model);
// Of a body that was parsed by parse_body().
absl::StatusOr<ApiRequest> read_request(Endpoint endpoint, OrderedJson body, const Model& model);

// A refusal of to_request() or the engine, which names GenerateRequest's fields, in the words of
// the JSON.
absl::Status in_json_words(const absl::Status& status, Endpoint endpoint);

// The body as an object; its "model", if given, has to be this one.
absl::StatusOr<OrderedJson> parse_body(const std::string& body, const Model& model);

}  // namespace lockstep::openai
