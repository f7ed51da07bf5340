// SPDX-License-Identifier: Apache-2.0
// A worker's stream to the coordinator, over any transport: gRPC (grpc_link.h), or a test.
#pragma once

#include "absl/status/status.h"
#include "proto/cluster.pb.h"

namespace lockstep {

class Link {
 public:
  virtual ~Link() = default;
  // The next message. False: the stream is over. For one thread.
  virtual bool read(cluster::CoordinatorMessage* message) = 0;
  // False: the stream is broken, which read() will see, too. For one thread at a time.
  virtual bool write(const cluster::WorkerMessage& message) = 0;
  // Says that nothing more will be written. Must not be called while write() runs.
  virtual void finish_writing() = 0;
  // Ends read() and write() soon; messages in flight are lost. Callable from any thread.
  virtual void cancel() = 0;
  // After read() was false: OK, or kPermissionDenied if the coordinator refused the stream.
  virtual absl::Status finish() = 0;
};

}  // namespace lockstep
