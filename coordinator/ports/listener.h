// SPDX-License-Identifier: Apache-2.0
// Accepts connections and hands them over. If the process has no free descriptor, the listener
// refuses the new connection and continues.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "base/log_limit.h"

namespace lockstep {

// The number of connections that leaves descriptors for workers, files and other ports: three
// quarters of the process's limit, and at most 8192.
int64_t connections_within_limit();

// Whether only this machine can reach "host:port", "unix:/path" or "unix-abstract:name".
bool is_loopback(const std::string& address);

// Counts of open connections.
struct OpenConnections {
  int64_t all = 0;
  int64_t of_network = 0;  // Connections of one network.
};

class Listener {
 public:
  // `address`: "host:port", where port 0 means any free port and a host's name means all of its
  // addresses; "unix:/path"; or "unix-abstract:name", an abstract name, which only this user's and
  // root's processes may use. At most `max_connections` are open at once; with `shares` one network
  // (network_of()) has at most seven eighths of them. kInvalidArgument, one line: the address
  // cannot be bound. From now on clients can connect, and wait until start() accepts them.
  static absl::StatusOr<std::unique_ptr<Listener>> bind(const std::string& address,
                                                        int64_t max_connections,
                                                        bool shares = false);
  ~Listener() { stop(); }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  // The bound address: "127.0.0.1:40123".
  const std::string& address() const { return address_; }

  // Call once. Both functions are called on the accepting thread. `hand_over` owns the descriptor,
  // which is non-blocking and close-on-exec. `count_open` counts the connections that were handed
  // over and are open.
  using CountOpen = std::function<OpenConnections(const std::string& network)>;
  void start(std::function<void(int descriptor)> hand_over, CountOpen count_open);
  // Hands over the connections that clients have opened so far, and accepts no more: the system
  // refuses new clients.
  void stop();

 private:
  Listener(int64_t max_connections, bool shares)
      : max_connections_(max_connections), shares_(shares) {}
  absl::Status bind_tcp(const std::string& address);
  absl::Status bind_unix(const std::string& address);

  // Used by the accepting thread.
  void run();
  bool accept_one(int socket);  // False: no connection was accepted.
  void take(int connection);
  void refuse_above_bound(int connection, const OpenConnections& open);
  // For a process without free descriptors: closes the spare one, to accept and refuse a client.
  void refuse_with_spare(int socket);
  void pause();

  const int64_t max_connections_;
  const bool shares_;
  std::string address_;
  std::vector<int> sockets_;
  int wake_ = -1;   // An eventfd that ends run().
  int spare_ = -1;  // /dev/null; -1 while it cannot be reopened.
  std::function<void(int)> hand_over_;
  CountOpen count_open_;
  std::thread thread_;
  LogLimit refusals_{std::chrono::seconds(1)};
};

}  // namespace lockstep
