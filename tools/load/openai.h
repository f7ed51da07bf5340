// SPDX-License-Identifier: Apache-2.0
// OpenAI's format for a load: a request's body, and an event of the answer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "tools/load/workload.h"

namespace lockstep {

enum class Endpoint { kCompletions, kChat };

const char* path_of(Endpoint endpoint);  // "/completions", "/chat/completions".

// `extra`: an object whose members are added to the body; they replace members of the same name.
std::string make_body(Endpoint endpoint, const std::string& model, const LoadRequest& request,
                      const Json& extra);

struct AnswerEvent {
  bool has_text = false;                 // Text of the answer, of thoughts or of a tool call.
  bool finished = false;                 // It has a finish_reason.
  bool done = false;                     // "[DONE]".
  std::optional<int64_t> prompt_tokens;  // From the usage.
  std::optional<int64_t> output_tokens;
  std::optional<std::string> error;  // The server's message.
};

// Parses the data of one server-sent event. An error: the data is no event of this interface.
absl::StatusOr<AnswerEvent> parse_answer_event(std::string_view data);

// The message in {"error": {"message": ...}} or {"message": ...}; else the beginning of `body`.
std::string error_message(std::string_view body);

// The "id" of the first model in an answer of GET /v1/models.
absl::StatusOr<std::string> first_model(std::string_view body);

}  // namespace lockstep
