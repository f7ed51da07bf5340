// SPDX-License-Identifier: Apache-2.0
// The public gRPC service (proto/generate.proto) in front of an engine.
#pragma once

#include <memory>
#include <string_view>

#include "coordinator/api/served_model.h"
#include "coordinator/api/task_pool.h"
#include "coordinator/http/exchange.h"

namespace lockstep {

// Thread-safe; no method blocks or takes long.
class GenerationService {
 public:
  static constexpr std::string_view kPrefix = "/lockstep.v1.Generation/";

  // `pool` runs the tasks of calls. It outlives this object.
  GenerationService(const ServedModel& served, TaskPool* pool) : served_(served), pool_(pool) {}

  // Answers a call whose path begins with kPrefix.
  void answer(const std::shared_ptr<http::Exchange>& exchange) const;

 private:
  absl::Status resume(const std::shared_ptr<http::Exchange>& exchange) const;
  absl::Status cancel(const std::shared_ptr<http::Exchange>& exchange) const;
  absl::Status describe(const std::shared_ptr<http::Exchange>& exchange) const;

  const ServedModel served_;
  TaskPool* const pool_;
};

}  // namespace lockstep
