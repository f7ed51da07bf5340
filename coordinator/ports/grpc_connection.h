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

// gRPC has one end of a pair of sockets, this class the other. At most 64 KiB are buffered in each
// direction: nothing is read for a side that is not reading. Driven by level-triggered epoll; each
// call carries at most 64 KiB in each direction. One thread.
class GrpcConnection {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr size_t kMaxReadBytes = 64 << 10;
  static constexpr Clock::time_point kNever = Clock::time_point::max();

  // The descriptors are owned and non-blocking. With `tls`, `inner` is -1, and open_inner() makes
  // it after the handshake; -1: it failed.
  struct Ends {
    int client = -1;
    int inner = -1;
    std::shared_ptr<ssl_st> tls = nullptr;  // Null: plain text.
    std::function<int()> open_inner = nullptr;
    bool wants_proof = false;  // If set, it ends after 10 s without trust().
  };
  GrpcConnection(Ends ends, std::unique_ptr<GrpcPace> pace, Clock::time_point now);
  // Closes both descriptors.
  ~GrpcConnection();
  GrpcConnection(const GrpcConnection&) = delete;
  GrpcConnection& operator=(const GrpcConnection&) = delete;

  int client() const { return ends_.client; }
  int inner() const { return ends_.inner; }

  struct EventContext {
    Clock::time_point now;
    char* scratch = nullptr;  // kMaxReadBytes.
  };
  void on_client(uint32_t events, const EventContext& context);
  void on_inner(uint32_t events, const EventContext& context);
  void on_time(const EventContext& context);
  // Continues the handshake, if waits_for_turn().
  void on_turn(const EventContext& context);
  // Ends the pacing, because the peer has proved who it is.
  void trust(Clock::time_point now);

  bool is_over() const { return is_over_; }
  // Whether a handshake waits, which takes long: call on_turn() after the turns of others.
  bool waits_for_turn() const { return waits_for_turn_; }
  // The events that it waits for. inner_events() is nullopt if inner() must not be watched.
  uint32_t client_events() const;
  std::optional<uint32_t> inner_events() const;
  // When to call on_time().
  Clock::time_point time() const;
  int64_t received() const { return received_; }  // Bytes from the client's socket.
  // Why it failed, if known.
  const std::string& problem() const { return problem_; }

 private:
  void carry_in(const EventContext& context);
  void carry_out(const EventContext& context);
  void receive(const EventContext& context);
  Channel::Progress read_turn(const EventContext& context, size_t* filled);
  void check_pace();
  void finish_handshake();
  void hang_up(Clock::time_point now);

  Ends ends_;
  Channel outside_;
  std::optional<Channel> inside_;
  std::unique_ptr<GrpcPace> pace_;  // Null: the peer is trusted.
  std::string to_grpc_;
  std::string to_client_;
  int64_t received_ = 0;
  bool client_ended_ = false;  // The client sends no more.
  bool wants_write_ = false;   // TLS must send before it receives.
  bool waits_for_turn_ = false;
  bool has_hung_up_ = false;  // gRPC reads no more; its output is still carried.
  bool is_over_ = false;
  Clock::time_point resume_ = kNever;  // Nothing is received before this time.
  Clock::time_point deadline_ = kNever;
  std::string problem_;
};

}  // namespace lockstep
