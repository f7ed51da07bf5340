// SPDX-License-Identifier: Apache-2.0
// Converts what a caller sends to what the engine takes: checks ranges, tokenizes text, fills in
// defaults. The same for gRPC, for `lockstep generate` and for a line of its --input.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "coordinator/engine/engine_request.h"
#include "coordinator/model/model.h"
#include "proto/generate.pb.h"

namespace lockstep {

// kInvalidArgument, one line: names the field, what it must be and what was found. All limits
// (limits.h) are checked before anything is copied or tokenized. Thread-safe.
absl::StatusOr<EngineRequest> to_request(const v1::GenerateRequest& message, const Model& model);

// One JSON object in GenerateRequest's spellings (prompt_ids as a list), plus "logits": true.
absl::StatusOr<v1::GenerateRequest> generate_request_from_json(const std::string& line,
                                                               bool* logits);

}  // namespace lockstep
