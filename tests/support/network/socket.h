// SPDX-License-Identifier: Apache-2.0
// A client's socket for raw bytes, for tests that send other protocols than gRPC, or invalid gRPC.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace lockstep::testing {

// Only one thread may use it. Closes on destruction.
class Socket {
 public:
  // Connects to "ipv4:port" or "unix:/path", else the test fails. `from`: the loopback address from
  // which it connects; with another than 127.0.0.1 the client seems to be in another network.
  explicit Socket(const std::string& address, const std::string& from = "127.0.0.1");
  ~Socket();
  Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }

  int descriptor() const { return descriptor_; }
  // Waits while the peer reads nothing. False after the peer has closed.
  bool send(std::string_view bytes) const;
  // Ends both directions: a running receive() returns "".
  void hang_up() const;
  // Waits for bytes; "" after the peer has closed.
  std::string receive() const;
  // Waits until the peer sends something or closes: true if it closed.
  bool is_closed_by_peer() const { return receive().empty(); }
  // The same without waiting: also false if nothing has arrived.
  bool was_closed() const;

 private:
  int descriptor_ = -1;
};

}  // namespace lockstep::testing
