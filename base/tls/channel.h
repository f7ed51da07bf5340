// SPDX-License-Identifier: Apache-2.0
// A connected socket, read and written without blocking, plain or over TLS.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

struct ssl_st;

namespace lockstep {

// Does not own its descriptor, which is non-blocking. Used by one thread.
class Channel {
 public:
  enum class Outcome {
    kDone,
    kWantRead,   // Nothing was done: retry when the socket is readable,
    kWantWrite,  // or writable.
    kEnd,        // The peer sends no more.
    kFailed,
  };
  struct Progress {
    Outcome outcome = Outcome::kDone;
    size_t bytes = 0;  // With kDone.
  };

  // `tls`: from TlsContext::open(); the first reads do the handshake. Null: plain.
  Channel(int descriptor, std::shared_ptr<ssl_st> tls)
      : descriptor_(descriptor), tls_(std::move(tls)) {}

  bool is_tls() const { return tls_ != nullptr; }
  // Whether the next read continues a handshake.
  bool is_handshaking() const;
  // Whether the peer closed its side before the handshake began. The handshake then never ends.
  bool is_abandoned() const;
  Progress read(char* bytes, size_t size);
  Progress write(std::string_view bytes);
  // Sends the end of the stream: nothing more will be sent.
  void end_writing();
  // Unsent bytes are dropped when the descriptor is closed.
  void reset_on_close();

 private:
  Outcome outcome_of_tls(int result);

  const int descriptor_;
  std::shared_ptr<ssl_st> tls_;
  bool failed_ = false;  // TLS then forbids sending anything more.
};

// Limits the memory for a slow reader. Detects clients that vanished: after 10 s of silence the
// system probes the client, and closes the connection if the client does not answer within 5 s. The
// system also closes a connection whose sent bytes are not acknowledged within 15 s.
void set_socket_options(int descriptor);

// "127.0.0.1:40123", "[::1]:40123"; "local" for a Unix socket.
std::string peer_name(int descriptor);

}  // namespace lockstep
