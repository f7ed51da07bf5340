// SPDX-License-Identifier: Apache-2.0
// A `lockstep serve` process with local workers, and what can be seen of it from outside: its log,
// its processes, its health.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/faults/questions.h"
#include "tests/support/processes/process.h"

namespace lockstep::faults {

enum class Phase { kJoining, kLoading, kNullStep, kIdle, kStep };
inline constexpr int kPhases = 5;
const char* name_of(Phase phase);

// Where and with what workers join: from the command line and the environment of one that did.
struct JoinPoint {
  std::string address;
  std::string token;
};

struct Footprint {
  int64_t descriptors = 0;
  int64_t resident_mb = 0;
};

// One thread.
class ObservedServer {
 public:
  // Waits until it is ready. ended(): it is not.
  ObservedServer(const std::string& model, int workers, std::vector<std::string> more);

  bool ended() { return process_.wait(std::chrono::seconds(0)) != -1; }
  // Ends it as Ctrl-C does; its exit code.
  int end();
  std::string log() const { return process_.err(); }
  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }
  Stub& stub() { return *stub_; }

  // As the log has it so far; kStep: there is a group.
  Phase logged_phase();
  // Asks the server as well: kIdle where there is a group and no request.
  Phase phase();
  // How many groups were begun, as the log has it.
  int epochs();
  bool has_joined(pid_t pid);
  // Why the last group was lost, as its clients were told.
  const std::string& last_loss();
  // SIGSTOP and SIGCONT, to the server itself.
  void signal(int number) { process_.signal(number); }
  bool is_serving();

  // The live process of `lockstep worker --rank RANK`; 0: there is none.
  pid_t worker(int rank) const;
  std::optional<JoinPoint> join_point() const;
  // "": it has each of its workers once and no zombie; else what is wrong.
  std::string odd_processes() const;
  Footprint footprint() const;
  int64_t descriptors_of_workers() const;  // The largest number.
  // What the private folder of the socket is in.
  const std::string& runtime_folder() const { return runtime_.path(); }

 private:
  void read_log();
  void note(const std::string& line);

  const int workers_;
  testing::TemporaryFolder runtime_;
  testing::Process process_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<Stub> stub_;
  size_t read_ = 0;  // Bytes of the log.
  Phase phase_ = Phase::kJoining;
  int epochs_ = 0;
  std::set<pid_t> joined_;
  std::string last_loss_;
};

}  // namespace lockstep::faults
