// SPDX-License-Identifier: Apache-2.0
// A connected socket as something to read and write without blocking, plain or by TLS.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

struct ssl_st;

namespace lockstep {

// Does not own its descriptor, which is non-blocking. One thread.
class Channel {
 public:
  enum class Outcome {
    kDone,
    kWantRead,   // Nothing was done: again when the socket can be read,
    kWantWrite,  // or written.
    kEnd,        // The peer sends no more.
    kFailed,
  };
  struct Progress {
    Outcome outcome = Outcome::kDone;
    size_t bytes = 0;  // With kDone.
  };

  // `tls`: of TlsContext::open(); the handshake is done by the first reads. Null: plain.
  Channel(int descriptor, std::shared_ptr<ssl_st> tls)
      : descriptor_(descriptor), tls_(std::move(tls)) {}

  bool is_tls() const { return tls_ != nullptr; }
  // Whether the next read goes on with a handshake.
  bool is_handshaking() const;
  // Whether it has not begun, and the peer has ended its side: it will never be done.
  bool is_abandoned() const;
  Progress read(char* bytes, size_t size);
  Progress write(std::string_view bytes);
  // Says that nothing more will be sent.
  void end_writing();
  // What is not sent yet is dropped when the descriptor is closed.
  void reset_on_close();

 private:
  Outcome outcome_of_tls(int result);

  const int descriptor_;
  std::shared_ptr<ssl_st> tls_;
  bool failed_ = false;  // Nothing may be said any more, by TLS's rules.
};

// Keeps little for a client that reads slowly, finds those that are gone without a word: after 10 s
// of silence and 5 s without an answer, or 15 s without an acknowledgement.
void set_socket_options(int descriptor);

// "127.0.0.1:40123", "[::1]:40123"; of a Unix socket "local".
std::string peer_name(int descriptor);

}  // namespace lockstep
