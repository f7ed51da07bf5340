// SPDX-License-Identifier: Apache-2.0
// A connected socket as something to read and write without blocking.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lockstep::http {

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

  explicit Channel(int descriptor) : descriptor_(descriptor) {}

  Progress read(char* bytes, size_t size);
  Progress write(std::string_view bytes);
  // Says that nothing more will be sent.
  void end_writing();
  // What is not sent yet is dropped when the descriptor is closed.
  void reset_on_close();

 private:
  const int descriptor_;
};

// Keeps little for a client that reads slowly, finds those that are gone without a word: after 10 s
// of silence and 5 s without an answer, or 15 s without an acknowledgement.
void set_socket_options(int descriptor);

// "127.0.0.1:40123", "[::1]:40123"; of a Unix socket "local".
std::string peer_name(int descriptor);

}  // namespace lockstep::http
