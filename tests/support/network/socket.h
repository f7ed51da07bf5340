// SPDX-License-Identifier: Apache-2.0
// A client's connection as bytes, for tests that speak no gRPC, or speak it badly.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace lockstep::testing {

// One thread. Closes on destruction.
class Socket {
 public:
  // Connects to "ipv4:port" or "unix:/path"; the test fails where it cannot. `from`: an address of
  // this machine's loopback, as another network's.
  explicit Socket(const std::string& address, const std::string& from = "127.0.0.1");
  ~Socket();
  Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }

  int descriptor() const { return descriptor_; }
  // False once the peer has closed; waits while the peer takes nothing.
  bool send(std::string_view bytes) const;
  // Ends both directions: a receive() under way returns "".
  void hang_up() const;
  // Waits for bytes; "" once the peer has closed.
  std::string receive() const;
  // Waits until the peer says something or closes: true if it closed.
  bool is_closed_by_peer() const { return receive().empty(); }
  // The same without waiting: false also while nothing has come.
  bool was_closed() const;

 private:
  int descriptor_ = -1;
};

}  // namespace lockstep::testing
