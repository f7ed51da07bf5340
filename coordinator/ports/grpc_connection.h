// SPDX-License-Identifier: Apache-2.0
// A client's connection to a gRPC port: its bytes are carried to gRPC and back.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/tls/channel.h"
#include "coordinator/ports/grpc_pace.h"

struct ssl_st;

namespace lockstep {

// gRPC has one end of a pair of sockets, this has the other. At most 64 KiB wait here in each
// direction: nothing is read for a side that takes nothing. Level-triggered epoll says what can be
// done; each call carries at most 64 KiB in each direction. One thread.
class GrpcConnection {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr size_t kTurnBytes = 64 << 10;
  static constexpr Clock::time_point kNever = Clock::time_point::max();

  // The descriptors are owned and non-blocking. With `tls`, `inner` is -1, and open_inner() makes
  // it after the handshake; -1: it cannot.
  struct Ends {
    int client = -1;
    int inner = -1;
    std::shared_ptr<ssl_st> tls = nullptr;  // Null: plain.
    std::function<int()> open_inner = nullptr;
    bool wants_proof = false;  // It ends after 10 s without trust().
  };
  GrpcConnection(Ends ends, const GrpcPace& pace, Clock::time_point now);
  // Closes both.
  ~GrpcConnection();
  GrpcConnection(const GrpcConnection&) = delete;
  GrpcConnection& operator=(const GrpcConnection&) = delete;

  int client() const { return ends_.client; }
  int inner() const { return ends_.inner; }

  struct Turn {
    Clock::time_point now;
    char* scratch = nullptr;  // kTurnBytes.
  };
  void on_client(uint32_t events, const Turn& turn);
  void on_inner(uint32_t events, const Turn& turn);
  void on_time(const Turn& turn);
  // Goes on with the handshake, if waits_for_turn().
  void on_turn(const Turn& turn);
  // Its peer has proved who it is: it is paced no more.
  void trust(Clock::time_point now);

  bool is_over() const { return is_over_; }
  // Whether it has something to do that takes long: on_turn() is to be called, when others had
  // their turns.
  bool waits_for_turn() const { return waits_for_turn_; }
  // The events that it waits for. Of inner() nullopt: it is not to be watched.
  uint32_t client_events() const;
  std::optional<uint32_t> inner_events() const;
  // When on_time() is to be called.
  Clock::time_point time() const;
  int64_t received() const { return received_; }  // Bytes of the client's socket.
  // The reason for which it failed, where it is known.
  const std::string& problem() const { return problem_; }

 private:
  void carry_in(const Turn& turn);
  void carry_out(const Turn& turn);
  void receive(const Turn& turn);
  void finish_handshake();
  void hang_up(Clock::time_point now);

  Ends ends_;
  Channel outside_;
  std::optional<Channel> inside_;
  std::optional<GrpcPace> pace_;  // Nothing: it is trusted.
  std::string to_grpc_;
  std::string to_client_;
  int64_t received_ = 0;
  bool client_ended_ = false;  // It sends no more.
  bool wants_write_ = false;   // TLS has to send before it receives.
  bool waits_for_turn_ = false;
  bool has_hung_up_ = false;  // gRPC takes no more: what it has sent is carried on.
  bool is_over_ = false;
  Clock::time_point resume_ = kNever;  // Nothing is received before.
  Clock::time_point deadline_ = kNever;
  std::string problem_;
};

}  // namespace lockstep
