// SPDX-License-Identifier: Apache-2.0
// The routes of OpenAI's API, with vLLM's additions, for an engine.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/http/router.h"
#include "coordinator/openai/generation.h"

namespace lockstep::openai {

struct ApiOptions {
  std::string tool_parser = "auto";  // See choose_formats().
  std::string reasoning_parser = "auto";
  std::string unknown_fields = "pass";  // See UnknownFields::set_mode().
  // Bounds the facts of all answers that are not complete (BufferedBytes::Sums::fit).
  int64_t max_held_bytes = 128 << 20;
};

// Must outlive the callers of its handlers, and the work that they have begun.
class Api {
 public:
  // The served model and the pool outlive it. kInvalidArgument: an option names an unknown parser
  // or mode.
  static absl::StatusOr<std::unique_ptr<Api>> create(const ServedModel& served, TaskPool* pool,
                                                     const ApiOptions& options);

  std::vector<http::Route> routes();
  const FormatChoice& formats() const { return context_.formats; }
  // The number of unknown fields in all requests, ignored or refused.
  int64_t unknown_fields() const { return context_.unknown_fields.count(); }

 private:
  Api() = default;
  ApiContext context_;
};

}  // namespace lockstep::openai
