// SPDX-License-Identifier: Apache-2.0
// A `lockstep serve` process with local workers, seen from outside: its log, its processes, its
// health.
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

// The address and token with which workers join, from a worker's command line and environment.
struct JoinPoint {
  std::string address;
  std::string token;
};

struct Footprint {
  int64_t descriptors = 0;
  int64_t resident_mb = 0;
};

// For one thread.
class ObservedServer {
 public:
  // Waits until the server is ready; otherwise ended() is true.
  ObservedServer(const std::string& model, int workers, std::vector<std::string> more);

  bool ended() { return process_.wait(std::chrono::seconds(0)) != -1; }
  // Ends the server as Ctrl-C does; returns its exit code.
  int end();
  std::string log() const { return process_.err(); }
  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }
  Stub& stub() { return *stub_; }

  // The phase according to the log so far; kStep if there is a group.
  Phase logged_phase();
  // The phase according to the log and the server: kIdle if there is a group and no request.
  Phase phase();
  // The number of epochs begun, according to the log.
  int epochs();
  bool has_joined(pid_t pid);
  // The log's line about the last loss of a group.
  const std::string& last_loss();
  // Sends SIGSTOP or SIGCONT to the server itself.
  void signal(int number) { process_.signal(number); }
  bool is_serving();

  // The live process of `lockstep worker --rank RANK`; 0 if there is none.
  pid_t worker(int rank) const;
  std::optional<JoinPoint> join_point() const;
  // "" if each worker runs once and there is no zombie; otherwise the fault.
  std::string odd_processes() const;
  Footprint footprint() const;
  int64_t descriptors_of_workers() const;  // The largest number that any worker has open.
  // The parent of the socket's private folder.
  const std::string& runtime_folder() const { return runtime_.path(); }

 private:
  void read_log();
  void note(const std::string& line);

  const int workers_;
  testing::TemporaryFolder runtime_;
  testing::Process process_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<Stub> stub_;
  size_t read_ = 0;  // The bytes of the log that were read.
  Phase phase_ = Phase::kJoining;
  int epochs_ = 0;
  std::set<pid_t> joined_;
  std::string last_loss_;
};

}  // namespace lockstep::faults
