// SPDX-License-Identifier: Apache-2.0
// One Resume call: the rest of a resumable stream.
#pragma once

#include "coordinator/api/grpc/stream_reactor.h"

namespace lockstep {

class ResumeReactor final : public StreamReactor {
 public:
  // Runs on gRPC's thread: it takes microseconds. The context outlives the call.
  ResumeReactor(const ServedModel& served, grpc::CallbackServerContext* context,
                grpc::ByteBuffer body);

 private:
  absl::Status begin(grpc::ByteBuffer* body);
};

}  // namespace lockstep
