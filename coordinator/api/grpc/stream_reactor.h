// SPDX-License-Identifier: Apache-2.0
// A call that is answered with the events of a log: writes new events, one message at a time.
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

// Deletes itself in OnDone(), which gRPC calls once, after Finish() and after all other reactions
// have returned. Two more threads may be inside then, and OnDone() waits for neither by itself:
// - the thread that began the call: its last action is Finish() or follow() (see below);
// - the notifier's thread, in pump(). The reader calls pump() under its listener's lock, as
//   set_listener() does for the first call. OnDone() removes the listener, which needs that lock:
//   after that, no thread is in pump() and none will enter it.
class StreamReactor : public grpc::ServerWriteReactor<grpc::ByteBuffer> {
 protected:
  // The context outlives the call.
  StreamReactor(const ServedModel& served, grpc::CallbackServerContext* context)
      : served_(served), context_(context) {}

  // Writes what the reader gives from offset `from` on, as the answer to this request. Called once.
  // The caller holds the reader: the call may be over, and this deleted, when it returns.
  void follow(std::string request_id, const std::shared_ptr<StreamReader>& reader, size_t from)
      ABSL_LOCKS_EXCLUDED(mutex_);

  const ServedModel served_;
  grpc::CallbackServerContext* const context_;
  Caller caller_;  // Set before another thread has this object.

 private:
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

  // Starts the next write if none is running; finishes the call after the last one.
  void pump() ABSL_LOCKS_EXCLUDED(mutex_);
  void write_next() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  v1::GenerateResponse to_response(const StreamEvent& event, size_t offset) const;
  void add_logprobs(const StreamEvent& event, v1::GenerateResponse* response) const;

  std::string request_id_;  // Set before reader_.

  Mutex mutex_;
  std::shared_ptr<StreamReader> reader_ ABSL_GUARDED_BY(mutex_);  // Null until follow().
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<StreamEvent> pending_ ABSL_GUARDED_BY(mutex_);
  size_t offset_ ABSL_GUARDED_BY(mutex_) = 0;  // The offset after the events read so far.
  grpc::ByteBuffer response_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace lockstep
