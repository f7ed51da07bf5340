// SPDX-License-Identifier: Apache-2.0
// A worker's stream to the coordinator, whatever carries it: gRPC (grpc_link.h), or a test.
#pragma once

#include "absl/status/status.h"
#include "proto/cluster.pb.h"

namespace lockstep {

class Link {
 public:
  virtual ~Link() = default;
  // The next message. False: the stream is over. One thread.
  virtual bool read(cluster::CoordinatorMessage* message) = 0;
  // False: the stream is broken, which read() will see as well. One thread at a time.
  virtual bool write(const cluster::WorkerMessage& message) = 0;
  // Nothing more will be written. One thread at a time with write().
  virtual void finish_writing() = 0;
  // Ends read() and write() soon; what is still on its way is lost. Any thread.
  virtual void cancel() = 0;
  // Once read() was false: OK, or kPermissionDenied where the coordinator refused the stream.
  virtual absl::Status finish() = 0;
};

}  // namespace lockstep
