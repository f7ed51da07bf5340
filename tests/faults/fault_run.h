// SPDX-License-Identifier: Apache-2.0
// A server, its clients, and one fault after another. After each fault the server must serve again,
// with the right bits, within the limit.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/faults/clients.h"
#include "tests/faults/fault.h"
#include "tests/faults/stranger.h"

namespace lockstep::faults {

struct FaultRunOptions {
  int workers = 3;
  int clients = 3;
  std::chrono::seconds limit{15};
  std::string shape;  // See Checkpoints; "": a model that Checkpoints makes.
  std::vector<std::string> serve_flags;
};

struct Outcome {
  Phase phase;                     // The phase that the fault hit.
  std::chrono::milliseconds took;  // The time from the fault until the server served again.
};

class FaultRun {
 public:
  explicit FaultRun(const FaultRunOptions& options);
  ~FaultRun();

  // Learns the right answers and starts the server. Errors say what failed.
  absl::Status begin();
  absl::StatusOr<Outcome> run(const Fault& fault);
  // Ends the server. Returns an error if anything of it is left.
  absl::Status end();

  ObservedServer& server() { return *server_; }
  // The server's log; "" if the server was not started.
  std::string log() const { return server_ == nullptr ? "" : server_->log(); }
  ClientTally tally() const { return clients_->tally(); }

 private:
  using Clock = std::chrono::steady_clock;

  absl::Status learn();
  bool until(const std::function<bool()>& holds);
  void approach(const Fault& fault);
  void release(const Fault& fault);
  void inject(const Act& act);
  void bring_spare(const Act& act);
  void follow_up(const Act& act);
  void signal(int rank, int number);
  absl::Status serve_again(Clock::time_point deadline);
  absl::Status check_answer(const Answer& answer);
  absl::Status check_loss(const std::string& pid);
  absl::Status tidy(Clock::time_point deadline);

  const FaultRunOptions options_;
  Checkpoints checkpoints_;
  std::vector<Question> questions_;
  std::unique_ptr<ObservedServer> server_;
  JoinPoint join_point_;
  std::unique_ptr<Clients> clients_;
  std::vector<std::unique_ptr<Stranger>> strangers_;  // This fault's strangers.
  std::vector<std::unique_ptr<testing::Process>> spares_;
  pid_t held_ = 0;            // A worker that is stopped to prolong the null step; 0: none.
  int served_ = 0;            // The checkpoint variant that was served last.
  bool must_reload_ = false;  // A rank was lost after the checkpoint was rewritten.
};

}  // namespace lockstep::faults
