// SPDX-License-Identifier: Apache-2.0
// Workers that must not join, or that join and do no work. The test imitates them on the real port.
#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "base/status.h"
#include "tests/faults/observed_server.h"
#include "worker/session/link.h"

namespace lockstep::faults {

enum class StrangerKind {
  kOtherHost,    // Has the same kernels, but cannot share memory with the others.
  kOtherDevice,  // A GPU: another numeric class.
  kOldProtocol,
  kWrongToken,
  kNoHello,  // Proves the token, then sends nothing.
  kMute,     // Joins correctly and sends heartbeats, but never answers.
};

// Runs on its own thread. The thread ends when the coordinator disconnects the stranger, or with
// this object.
class Stranger {
 public:
  Stranger(StrangerKind kind, const JoinPoint& at, int workers);
  ~Stranger();

  bool ended() const { return ended_; }
  // After it ended: "" if the coordinator refused it correctly; otherwise the error.
  const std::string& error() const { return error_; }
  // True if the coordinator must disconnect the stranger; false: the test ends it.
  bool is_unwelcome() const { return kind_ != StrangerKind::kMute; }

 private:
  void run(const JoinPoint& at, int workers);
  void introduce(int workers);
  // Reads until the stream ends; returns the refusal's reason, or "" if there was none.
  std::string read_refusal();

  const StrangerKind kind_;
  std::atomic<bool> ended_{false};
  std::atomic<bool> leaving_{false};
  std::string error_;
  std::unique_ptr<Link> link_;  // Null if the stranger could not join.
  std::thread thread_;
};

}  // namespace lockstep::faults
