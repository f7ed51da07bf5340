// SPDX-License-Identifier: Apache-2.0
// A network between two ends that is not as it should be: forwards TCP connections, and does to
// their bytes what it is told. Kernels may lack a way to do that for us.
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

// What happens on the way back to whoever dialled the relay; the other way is as it should be.
// Numbers count all bytes that went there. Negative: never.
struct RelayFaults {
  std::atomic<int64_t> flip_at{-1};             // One bit of this byte is changed.
  std::atomic<int64_t> stall_at{-1};            // From this byte on nothing goes.
  std::atomic<int64_t> reset_at{-1};            // Before this byte both ends are reset.
  std::atomic<int64_t> drop_at{-1};             // This byte is left out.
  std::atomic<int64_t> chunk_bytes{64 * 1024};  // Forwarded at a time,
  std::atomic<int64_t> pause_us{0};             // with so much time between two.
};

// Listens on loopback and dials `target` for each caller. One thread; ends with this object.
class Relay {
 public:
  explicit Relay(std::string target);
  ~Relay();

  const std::string& address() const { return address_; }
  RelayFaults& faults() { return faults_; }
  int64_t bytes() const { return bytes_; }  // That went back so far.

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
