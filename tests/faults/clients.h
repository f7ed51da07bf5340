// SPDX-License-Identifier: Apache-2.0
// Clients that send one question after another, whatever happens to the server.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/faults/questions.h"

namespace lockstep::faults {

struct ClientTally {
  int64_t served = 0;              // Answers that arrived in full.
  int64_t rewritten = 0;           // Answers ended because another checkpoint was loaded meanwhile.
  std::vector<int64_t> pauses_ms;  // The longest pause of each full answer, in ascending order.
};

class Clients {
 public:
  // `questions` must outlive this object. A call longer than `patience` breaks a promise.
  Clients(const std::shared_ptr<grpc::Channel>& channel, const std::vector<Question>& questions,
          int count, std::chrono::seconds patience);
  // Waits for the open calls.
  ~Clients();

  // Stops new calls.
  void pause();
  void resume();
  ClientTally tally() const;
  // "" if every stream so far ended in full with the right bits, or was ended because the
  // checkpoint changed.
  std::string broken_promise() const;

 private:
  void run(int client);
  bool may_go_on();
  void note(const Question& question, const Answer& answer);

  const std::vector<Question>& questions_;
  const std::chrono::seconds patience_;
  const std::unique_ptr<Stub> stub_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool paused_ = false;
  bool stopping_ = false;
  ClientTally tally_;
  std::string broken_promise_;
  std::vector<std::thread> threads_;
};

}  // namespace lockstep::faults
