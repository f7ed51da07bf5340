// SPDX-License-Identifier: Apache-2.0
// Converts what a caller sends to what the engine takes: checks ranges, tokenizes text, fills in
// defaults. It is the same for gRPC, for `lockstep generate` and for a line of its --input.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "coordinator/engine/engine_request.h"
#include "coordinator/model/model.h"
#include "proto/generate.pb.h"

namespace lockstep {

// kInvalidArgument, one line: names the field, what it must be and what was found. All limits
// (limits.h) are checked before anything is copied or tokenized. Thread-safe.
absl::StatusOr<EngineRequest> to_request(const v1::GenerateRequest& message, const Model& model);

// Requests that differ only in their prompts. The lists that they share may be large, so they are
// checked and read once, with the first request. Only one thread may use a batch.
class RequestBatch {
 public:
  // `model` outlives this object.
  RequestBatch(v1::GenerateRequest shared, const Model& model)
      : shared_(std::move(shared)), model_(model) {}
  // Like to_request(); `prompt` has the fields that are not shared.
  absl::StatusOr<EngineRequest> add(const v1::GenerateRequest& prompt);

 private:
  v1::GenerateRequest shared_;  // Without lists after the first request.
  const Model& model_;
  std::optional<EngineRequest> first_;  // The lists of the first request.
};

// Parses one JSON object with the field names of GenerateRequest, except that prompt_ids is a list.
// The object may also have the key "logits", which sets `*logits`; without the key it is false.
absl::StatusOr<v1::GenerateRequest> generate_request_from_json(const std::string& line,
                                                               bool* logits);

}  // namespace lockstep
