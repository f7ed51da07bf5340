// SPDX-License-Identifier: Apache-2.0
// One Generate call: has its request read on the pool, then follows the request's stream and writes
// what is new, one message at a time.
#pragma once

#include <grpcpp/grpcpp.h>

#include <deque>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "coordinator/api/served_model.h"
#include "coordinator/api/task_pool.h"
#include "coordinator/api/wire.h"
#include "proto/generate.pb.h"

namespace lockstep {

// Deletes itself in OnDone, which gRPC calls once after Finish() and after all other reactions have
// returned. Two more threads may be inside then, and OnDone waits for neither by itself:
// - the pool's, in start(): it calls Finish() last, or set_listener(), of which below;
// - the engine's, in pump(), called by the stream under its listener's lock, as is the first call
//   from set_listener(). OnDone takes the listener back, which needs that lock: when it has it,
//   nobody is in pump() and nobody will be.
class GenerateReactor final : public grpc::ServerWriteReactor<grpc::ByteBuffer> {
 public:
  // On gRPC's thread: looks for room in the engine's queue, and hands the bytes to the pool. Pool
  // and context outlive the call.
  GenerateReactor(const ServedModel& served, TaskPool* pool, grpc::CallbackServerContext* context,
                  const grpc::ByteBuffer& body);

 private:
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

  absl::Status hand_over(TaskPool* pool, const grpc::ByteBuffer& body);
  // On the pool: parses, checks, tokenizes, submits.
  void start(grpc::ByteBuffer body) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<std::shared_ptr<Stream>> submit(grpc::ByteBuffer* body);
  // Starts the next write if none is under way; finishes the call after the last one.
  void pump() ABSL_LOCKS_EXCLUDED(mutex_);
  void write_next() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  v1::GenerateResponse to_response(const StreamEvent& event) const;

  const ServedModel served_;
  grpc::CallbackServerContext* const context_;
  Caller caller_;           // Set before the pool has a task of it.
  std::string request_id_;  // Set before the stream is.

  Mutex mutex_;
  std::shared_ptr<Stream> stream_ ABSL_GUARDED_BY(mutex_);  // Null until it is submitted.
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<StreamEvent> pending_ ABSL_GUARDED_BY(mutex_);
  size_t offset_ ABSL_GUARDED_BY(mutex_) = 0;  // Events read from the stream.
  grpc::ByteBuffer response_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace lockstep
