// SPDX-License-Identifier: Apache-2.0
// A socket that accepts connections and hands them over. gRPC 1.51 permanently closes its own
// listener when the process runs out of descriptors; this one refuses the connection and continues.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "base/log_limit.h"
#include "base/threads/mutex.h"

namespace lockstep {

// The max connections, with `descriptors_each`: they use up to three quarters of the process's
// descriptors, so that workers, files and other ports have the others, and are at most 8192.
int64_t connections_within_limit(int64_t descriptors_each = 1);

// Whether only this machine can reach "host:port", "unix:/path" or "unix-abstract:name".
bool is_loopback(const std::string& address);

// The rule for a new connection when the max number is open. kRefuse refuses it. kShare also
// refuses it earlier, if its network (network_of()) has seven eighths of the max. kCloseOldest
// accepts it and closes the oldest connection that is not kept.
enum class WhenFull : uint8_t { kRefuse, kShare, kCloseOldest };

// Counts of open connections.
struct OpenConnections {
  int64_t all = 0;
  int64_t of_network = 0;  // Connections of one network.
};

class Listener {
 public:
  // `address`: "host:port", where port 0 takes a free one and a name is bound at all of its
  // addresses; "unix:/path"; or "unix-abstract:name", an abstract name, which only this user's and
  // root's processes may use. At most `max_connections` are open at once. kInvalidArgument, one
  // line: the address cannot be bound. From now on clients wait; start() accepts them.
  static absl::StatusOr<std::unique_ptr<Listener>> bind(const std::string& address,
                                                        int64_t max_connections,
                                                        WhenFull when_full = WhenFull::kRefuse);
  ~Listener() { stop(); }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  // The bound address: "127.0.0.1:40123".
  const std::string& address() const { return address_; }

  // With WhenFull::kCloseOldest: keeps the connection of this peer, "127.0.0.1:40123" or
  // "[::1]:40123". Any thread.
  void keep(const std::string& peer) ABSL_LOCKS_EXCLUDED(mutex_);

  // Call once. `hand_over` is called on the accepting thread and owns the descriptor, which is
  // non-blocking and close-on-exec; a connection counts as open until the descriptor is closed.
  // `count_open`: the owner's count of open ones; without it the listener checks the descriptors.
  using CountOpen = std::function<OpenConnections(const std::string& network)>;
  void start(std::function<void(int descriptor)> hand_over, CountOpen count_open = nullptr);
  // Accepts no more: the system refuses new clients; connections handed over are not touched.
  void stop();

 private:
  Listener(int64_t max_connections, WhenFull when_full)
      : max_connections_(max_connections), when_full_(when_full) {}
  absl::Status bind_tcp(const std::string& address);
  absl::Status bind_unix(const std::string& address);

  // A connection that was handed over and is not known to be closed.
  struct Connection {
    uint64_t inode = 0;   // Changes when the descriptor is closed or reused.
    uint64_t number = 0;  // In the order of arrival.
    std::string peer;     // "": a Unix socket, which has no name.
    bool kept = false;
  };

  // Used by the accepting thread.
  void run();
  void accept_one(int socket);
  void take(int connection) ABSL_LOCKS_EXCLUDED(mutex_);
  void refuse_above_bound(int connection, const OpenConnections& open);
  OpenConnections count(const std::string& network) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool is_full(const OpenConnections& open) const;
  void forget_closed() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void forget(std::map<int, Connection>::iterator one) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool close_oldest() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Out of descriptors: accepts with the spare one, only to refuse.
  void refuse_with_spare(int socket);
  void pause();

  const int64_t max_connections_;
  const WhenFull when_full_;
  std::string address_;
  std::vector<int> sockets_;
  int wake_ = -1;   // An eventfd that ends run().
  int spare_ = -1;  // /dev/null; -1 while it cannot be reopened.
  std::function<void(int)> hand_over_;
  CountOpen count_open_;
  std::thread thread_;

  std::chrono::steady_clock::time_point last_look_;
  uint64_t accepted_ = 0;
  LogLimit refusals_{std::chrono::seconds(1)};

  Mutex mutex_;
  std::map<int, Connection> open_ ABSL_GUARDED_BY(mutex_);                     // By descriptor.
  std::unordered_map<std::string, int64_t> networks_ ABSL_GUARDED_BY(mutex_);  // Their number.
};

}  // namespace lockstep
