// SPDX-License-Identifier: Apache-2.0
// A faulty network between two ends: forwards TCP connections and injects faults into their bytes.
// It needs nothing of the operating system but sockets.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/sockets/file_descriptor.h"

namespace lockstep::testing {

// Faults in the bytes from the target back to the dialling end; the other direction has none. The
// positions `..._at` count the bytes that all connections have sent back. Negative: never.
struct RelayFaults {
  std::atomic<int64_t> flip_at{-1};             // Changes one bit of this byte.
  std::atomic<int64_t> stall_at{-1};            // Forwards nothing from this byte on.
  std::atomic<int64_t> reset_at{-1};            // Resets both ends before this byte.
  std::atomic<int64_t> drop_at{-1};             // Leaves out this byte.
  std::atomic<int64_t> chunk_bytes{64 * 1024};  // The max bytes that are forwarded at a time.
  std::atomic<int64_t> pause_us{0};             // A pause before each of these times.
};

// Listens on loopback and dials `target` for each caller. It has one thread, which ends with this
// object.
class Relay {
 public:
  explicit Relay(std::string target);
  ~Relay();

  const std::string& address() const { return address_; }
  RelayFaults& faults() { return faults_; }
  int64_t bytes() const { return bytes_; }  // Bytes that were sent back so far.

 private:
  struct Pair {
    FileDescriptor caller, target;
    int64_t bytes = 0;
  };

  void run();
  bool forward(const FileDescriptor& from, const FileDescriptor& to, Pair* counted);
  void reset(Pair& pair);

  const std::string target_;
  FileDescriptor listener_;
  std::string address_;
  RelayFaults faults_;
  std::atomic<int64_t> bytes_{0};
  std::atomic<bool> stopping_{false};
  std::vector<Pair> pairs_;
  std::thread thread_;
};

}  // namespace lockstep::testing
