// SPDX-License-Identifier: Apache-2.0
// A call that is answered with the events of a log: writes what is new, one message at a time.
#pragma once

#include <grpcpp/grpcpp.h>

#include <deque>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "base/threads/mutex.h"
#include "coordinator/api/grpc/wire.h"
#include "coordinator/api/served_model.h"
#include "coordinator/streams/stream_reader.h"
#include "proto/generate.pb.h"

namespace lockstep {

// Deletes itself in OnDone, which gRPC calls once after Finish() and after all other reactions have
// returned. Two more threads may be inside then, and OnDone waits for neither by itself:
// - the one that began the call: it calls Finish() last, or follow(), of which below;
// - the notifier's, in pump(), called by the reader under its listener's lock, as is the first call
//   from set_listener(). OnDone takes the listener back, which needs that lock: when it has it,
//   nobody is in pump() and nobody will be.
class StreamReactor : public grpc::ServerWriteReactor<grpc::ByteBuffer> {
 protected:
  // The context outlives the call.
  StreamReactor(const ServedModel& served, grpc::CallbackServerContext* context)
      : served_(served), context_(context) {}

  // Writes what the reader gives from offset `from` on, as the answer to this request. Once. The
  // caller holds the reader: the call may be over, and this be deleted, when it returns.
  void follow(std::string request_id, const std::shared_ptr<StreamReader>& reader, size_t from)
      ABSL_LOCKS_EXCLUDED(mutex_);

  const ServedModel served_;
  grpc::CallbackServerContext* const context_;
  Caller caller_;  // Set before another thread has this object.

 private:
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

  // Starts the next write if none is under way; finishes the call after the last one.
  void pump() ABSL_LOCKS_EXCLUDED(mutex_);
  void write_next() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  v1::GenerateResponse to_response(const StreamEvent& event, size_t offset) const;
  void add_logprobs(const StreamEvent& event, v1::GenerateResponse* response) const;

  std::string request_id_;  // Set before the reader is.

  Mutex mutex_;
  std::shared_ptr<StreamReader> reader_ ABSL_GUARDED_BY(mutex_);  // Null until follow().
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<StreamEvent> pending_ ABSL_GUARDED_BY(mutex_);
  size_t offset_ ABSL_GUARDED_BY(mutex_) = 0;  // Behind the events that were read.
  grpc::ByteBuffer response_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace lockstep
