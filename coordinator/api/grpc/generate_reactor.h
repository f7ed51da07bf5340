// SPDX-License-Identifier: Apache-2.0
// One Generate call: has its request read on the pool, then writes its answer.
#pragma once

#include "coordinator/api/grpc/stream_reactor.h"
#include "coordinator/api/task_pool.h"

namespace lockstep {

class GenerateReactor final : public StreamReactor {
 public:
  // Runs on gRPC's thread: checks that the engine's queue has room, and gives the bytes to the
  // pool. Pool and context outlive the call.
  GenerateReactor(const ServedModel& served, TaskPool* pool, grpc::CallbackServerContext* context,
                  const grpc::ByteBuffer& body);

 private:
  absl::Status hand_over(TaskPool* pool, const grpc::ByteBuffer& body);
  // Runs on the pool: parses, checks, tokenizes, submits.
  void start(grpc::ByteBuffer body);
  absl::Status submit(grpc::ByteBuffer* body);
  void refuse(const absl::Status& status);
  absl::StatusOr<std::unique_ptr<StreamReader>> submit_resumable(const v1::GenerateRequest& message,
                                                                 EngineRequest request);
};

}  // namespace lockstep
