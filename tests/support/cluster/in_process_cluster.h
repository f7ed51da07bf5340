// SPDX-License-Identifier: Apache-2.0
// A whole group in this process, without gRPC: a model's folder is compiled, and every rank is a
// Worker on its own thread, with local collectives. Tests of bits and of goldens use it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/cluster/group.h"
#include "sharding/compile.h"
#include "worker/worker.h"

namespace lockstep {

struct InProcessOptions {
  std::filesystem::path model;
  int ranks = 1;
  int threads = 1;  // Per rank.
  Strategy strategy = Strategy::kGather;
  std::vector<double> speeds = {};
  DType kv_dtype = DType::kNone;             // kNone: the type of linear weights.
  std::string dtype = "auto";                // bfloat16, float32, or auto: bfloat16 if stored so.
  std::string quantize = {};                 // A scheme; "": the checkpoint's own scheme, if any.
  std::optional<uint64_t> random_seed = {};  // If set, the folder only needs config.json.
  program::Limits limits = {};               // Fields that are 0 get a default.
  int64_t max_pages = 64;
  std::function<Backend()> backend = {};  // Makes every rank's backend; unset: the CPU's.
};

// The thread of one rank. It runs the work of start(); wait() waits until the work is done.
class RankThread {
 public:
  RankThread();
  ~RankThread();
  void start(std::function<void()> work);
  void wait();

 private:
  void run();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> work_;  // Empty: there is no work.
  bool stopping_ = false;
  std::thread thread_;
};

// A set of ranks below 64. Thread-safe.
class RankSet {
 public:
  void clear() { ranks_ = 0; }
  void add(int rank);
  void wait_for_all_but(int rank, int count) const;

 private:
  std::atomic<uint64_t> ranks_{0};
};

class InProcessCluster final : public Cluster {
 public:
  // Compiles the model; errors are the compiler's.
  static absl::StatusOr<std::unique_ptr<InProcessCluster>> open(const InProcessOptions& options);

  // Loads the workers the first time. Later the workers rejoin with the weights that they have.
  // Groups must not outlive the cluster.
  absl::StatusOr<std::unique_ptr<Group>> form(const GroupRequirements& requirements) override;
  void shutdown() override { stopped_ = true; }

  // The next step fails as if that rank had died in it, after its peers have entered a collective.
  // Any thread.
  void fail_next_step(int rank) { failing_rank_ = rank; }

  const std::vector<program::Program>& programs() const { return programs_; }
  // The profile of a loaded rank; call it between steps.
  std::string profile(int rank) const { return workers_[rank]->profile(); }
  // The number of distinct KV pages in the last step, and in all steps of the last group.
  int64_t pages_of_last_step() const { return static_cast<int64_t>(last_pages_.size()); }
  int64_t pages_of_group() const { return static_cast<int64_t>(all_pages_.size()); }

 private:
  class InProcessGroup;

  InProcessCluster() = default;
  // Runs work(rank) on every rank's thread; returns the error of the lowest rank.
  absl::Status on_all(const std::function<absl::Status(int)>& work);
  absl::Status load_or_rejoin();
  absl::StatusOr<std::vector<cluster::StepResult>> step(const cluster::Step& step);
  absl::StatusOr<cluster::StepResult> step_rank(int rank, const cluster::Step& step, int failing);
  void count_pages(const cluster::Step& step);

  InProcessOptions options_;
  std::vector<program::Program> programs_;
  std::vector<Backend> backends_;  // One per rank; empty: ranks use the CPU's.
  RankSet waiting_;                // Ranks that have entered a collective of this step.
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<std::unique_ptr<RankThread>> threads_;
  uint64_t epoch_ = 0;
  std::atomic<bool> stopped_{false};
  std::atomic<int> failing_rank_{-1};
  std::map<int32_t, std::vector<int32_t>> pages_by_slot_;
  std::set<int32_t> last_pages_;
  std::set<int32_t> all_pages_;
};

}  // namespace lockstep
