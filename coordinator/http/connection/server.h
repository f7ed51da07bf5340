// SPDX-License-Identifier: Apache-2.0
// A port of HTTP/1.1 or HTTP/2: sockets, limits and deadlines. The handler makes the answers.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "base/tls/server_tls.h"
#include "coordinator/http/exchange.h"
#include "coordinator/http/refusal.h"
#include "coordinator/http/request_reader.h"

namespace lockstep::http {

// The rule for a new connection. When the max number is open, kRefuse and kShare refuse it, and
// kCloseOther accepts it and closes others (IoThread::close_one()). kShare also refuses it when its
// network (network_of()) has seven eighths of the max number.
enum class WhenFull : uint8_t { kRefuse, kShare, kCloseOther };

// HTTP/2: the limits of a connection until Exchange::keep_connection(). Above them it is closed.
struct UnprovenLimits {
  std::chrono::milliseconds time{10'000};  // From accept.
  int32_t requests = 4;
  size_t frame_bytes = 8 << 10;  // Without TLS.
};

struct Limits {
  ReadLimits read;
  int64_t all_body_bytes = 256 << 20;        // For all requests being received.
  int64_t all_answer_bytes = 256 << 20;      // For answers and pieces above 64 KiB, until sent.
  size_t pipelined_bytes = 64 << 10;         // HTTP/1.1: read ahead while a request is answered.
  uint32_t max_streams = 256;                // HTTP/2: requests of one connection at once.
  std::chrono::milliseconds header{10'000};  // From a head's first byte; first head: from accept.
  std::chrono::milliseconds body{30'000};    // From the end of the head; HTTP/2: from its start.
  std::chrono::milliseconds idle{75'000};    // Between requests.
  std::chrono::milliseconds write{15'000};   // Without progress in sending all, or one stream.
  std::chrono::milliseconds linger{2'000};   // HTTP/1.1: for the client to read a last answer.
  // HTTP/1.1: for the next request of an idle client while the server drains. If its connection
  // closed at once, a client that is just sending would not know whether its request was taken.
  std::chrono::milliseconds last_request{1'000};
  std::chrono::milliseconds silence{15'000};  // HTTP/1.1: see BodySource::keep_alive().
  std::chrono::milliseconds ping{5'000};      // HTTP/2: after this silence the client is pinged,
  std::chrono::milliseconds lost{15'000};     // and after this one its connection is closed.
  // Not set: clients need not prove anything.
  std::optional<UnprovenLimits> unproven = std::nullopt;
};

struct ServerOptions {
  std::string address;                          // In the form that Listener::bind() takes.
  TlsProtocol protocol = TlsProtocol::kHttp11;  // Applies without TLS, too.
  int threads = 2;
  int64_t max_connections = 0;  // 0: connections_within_limit().
  Limits limits;
  RenderRefusal refusal = render_refusal;
  Gate gate = {};                 // Null: every body is received.
  PageHeaders page_headers = {};  // For refusals made before the handler. Null: none.
  // kCloseOther: for each new connection above max_connections, each I/O thread closes one.
  WhenFull when_full = WhenFull::kRefuse;
  TlsFiles tls;  // Not set: plain TCP.
};

class Server {
 public:
  // Accepts connections from now on. kInvalidArgument, one line: the address cannot be bound, or
  // the certificate cannot be used.
  static absl::StatusOr<std::unique_ptr<Server>> start(const ServerOptions& options,
                                                       Handler handler);
  // Closes all connections. Exchanges may outlive the server; calls of their methods have no
  // effect.
  ~Server();

  // The bound address: "127.0.0.1:40123".
  const std::string& address() const;
  // From now on each answer ends its connection. HTTP/1.1: answers say so, and a connection that is
  // idle closes after Limits::last_request; connections that have not sent a request yet, or are
  // opened later, also get an answer, so that probes learn that the server drains. HTTP/2: the
  // client may open no more streams. Any thread.
  void drain();
  // drain(), then accepts no more connections, and waits until all are closed, at most this long.
  // Any thread except its own.
  void finish(std::chrono::milliseconds patience);
  // Waits until no request is being answered, at most this long. Any thread except its own.
  void wait_answered(std::chrono::milliseconds patience);
  // The number of open connections. Any thread.
  int64_t connections() const;

 private:
  class Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::http
