// SPDX-License-Identifier: Apache-2.0
// One Generate call: follows the request's stream and writes what is new, one message at a time.
#pragma once

#include <grpcpp/grpcpp.h>

#include <deque>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "coordinator/service.h"
#include "proto/generate.pb.h"

namespace lockstep {

grpc::Status to_grpc(const absl::Status& status);

// Deletes itself when gRPC is done with the call.
class GenerateReactor final : public grpc::ServerWriteReactor<v1::GenerateResponse> {
 public:
  GenerateReactor(InferenceService* service, const v1::GenerateRequest& message);

 private:
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

  // Starts the next write if none is under way; finishes the call after the last one.
  void pump() ABSL_LOCKS_EXCLUDED(mutex_);
  v1::GenerateResponse to_response(const StreamEvent& event) const;

  InferenceService* const service_;
  std::string request_id_;
  std::shared_ptr<Stream> stream_;  // Null where the request was refused.

  absl::Mutex mutex_;
  std::deque<StreamEvent> pending_ ABSL_GUARDED_BY(mutex_);
  size_t offset_ ABSL_GUARDED_BY(mutex_) = 0;  // Events read from the stream.
  v1::GenerateResponse response_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace lockstep
