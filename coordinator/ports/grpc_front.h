// SPDX-License-Identifier: Apache-2.0
// What is between the clients of a port and gRPC: a thread of ours that ends TLS and paces what
// gRPC is given (GrpcPace).
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/tls/server_tls.h"

namespace lockstep {

class GrpcFront {
 public:
  // A connection has three: the client's, and the pair between this and gRPC.
  static constexpr int64_t kDescriptors = 3;

  // `address` is for the log. `hand_over`: gives gRPC a plain connection, which it then owns and
  // whose peer is kRelayedPrefix with the client's address. Any thread, one at a time.
  // `wants_proof`: clients are not trusted before trust(), and closed after 10 s without it.
  // kResourceExhausted, one line: no descriptor is left.
  using HandOver = std::function<void(int descriptor)>;
  static absl::StatusOr<std::unique_ptr<GrpcFront>> start(const std::string& address,
                                                          std::unique_ptr<TlsContext> tls,
                                                          HandOver hand_over,
                                                          bool wants_proof = false);
  // Sends what gRPC has sent, as long as it is taken, at most for a second. gRPC has closed its
  // connections before.
  ~GrpcFront();

  // Owns the descriptor, which is non-blocking. Any thread.
  void adopt(int descriptor);
  // The client is paced no more. `peer`: as gRPC's contexts name it. Any thread.
  void trust(const std::string& peer);
  // Calls hand_over no more: a client whose handshake is not done yet is closed. Any thread.
  void stop();

 private:
  class Impl;
  explicit GrpcFront(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep
