// SPDX-License-Identifier: Apache-2.0
// Workers that should not join, or join and do no work: made by hand, over the real port.
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
  kOtherHost,    // Computes alike, but cannot share memory with the others.
  kOtherDevice,  // A GPU: another numeric class.
  kOldProtocol,
  kWrongToken,
  kNoHello,  // Proves the token, then says nothing.
  kMute,     // Joins well and sends heartbeats, but never answers.
};

// A thread of its own, which ends when the coordinator sends it away, or with the object.
class Stranger {
 public:
  Stranger(StrangerKind kind, const JoinPoint& at, int workers);
  ~Stranger();

  bool ended() const { return ended_; }
  // Once it ended: "" if it was sent away as such a worker should be; else what was wrong.
  const std::string& complaint() const { return complaint_; }
  // Whether the coordinator should send it away of its own accord.
  bool is_unwelcome() const { return kind_ != StrangerKind::kMute; }

 private:
  void run(const JoinPoint& at, int workers);
  void introduce(int workers);
  // Reads until the stream ends; the refusal's reason, "" where there was none.
  std::string read_refusal();

  const StrangerKind kind_;
  std::atomic<bool> ended_{false};
  std::atomic<bool> leaving_{false};
  std::string complaint_;
  std::unique_ptr<Link> link_;  // Null: it was not let in.
  std::thread thread_;
};

}  // namespace lockstep::faults
