// SPDX-License-Identifier: Apache-2.0
// Our thread between the clients of a port and gRPC: it ends TLS and paces the input of gRPC
// (GrpcPace).
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/tls/server_tls.h"
#include "coordinator/ports/grpc_pace.h"

namespace lockstep {

class GrpcFront {
 public:
  // Per connection: the client's, and the pair between this and gRPC.
  static constexpr int64_t kDescriptors = 3;

  // `address` is for the log. `hand_over` gives gRPC a plain connection, which it then owns and
  // whose peer is kRelayedName with the client's address; any thread, one call at a time.
  // `wants_proof`: a client is closed after 10 s without trust(). `max_held_bytes`: see GrpcShares.
  // kResourceExhausted, one line: no descriptor is left.
  using HandOver = std::function<void(int descriptor)>;
  static absl::StatusOr<std::unique_ptr<GrpcFront>> start(
      const std::string& address, std::unique_ptr<TlsContext> tls, HandOver hand_over,
      bool wants_proof = false, int64_t max_held_bytes = GrpcShares::kMaxHeldBytes);
  // Sends the rest of gRPC's output, for at most a second. gRPC must have closed its connections.
  ~GrpcFront();

  // Takes ownership of the descriptor, which is non-blocking. Any thread.
  void adopt(int descriptor);
  // Ends the pacing of a client. `peer` is its name in gRPC's contexts. Any thread.
  void trust(const std::string& peer);
  // Stops calling hand_over: a client whose handshake is not done is closed. Any thread.
  void stop();

 private:
  class Impl;
  explicit GrpcFront(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep
