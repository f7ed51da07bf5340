// SPDX-License-Identifier: Apache-2.0
// What a caller sends -> what the engine takes: ranges checked, text tokenized, defaults filled in.
// The same for gRPC, for `lockstep generate` and for a line of its --input.
#pragma once

#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "coordinator/model.h"
#include "coordinator/request.h"
#include "proto/generate.pb.h"

namespace lockstep {

// A field's range: drives the check and the help.
struct FieldRange {
  const char* field;
  double least;
  double most;
  bool least_included = true;
};
std::span<const FieldRange> generate_field_ranges();

// kInvalidArgument, one line, names the field, what was wanted and what was found. Thread-safe.
absl::StatusOr<Request> to_request(const v1::GenerateRequest& message, const Model& model);

// One JSON object in GenerateRequest's spellings (prompt_ids as a list), plus "logits": true.
absl::StatusOr<v1::GenerateRequest> generate_request_from_json(const std::string& line,
                                                               bool* logits);

}  // namespace lockstep
