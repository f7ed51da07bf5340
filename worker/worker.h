// SPDX-License-Identifier: Apache-2.0
// One rank without its transport: a program bound to kernels, its weights in memory, its KV pages
// and its place in the collectives. worker/session connects it to the coordinator; tests run it on
// threads.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/threads/thread_pool.h"
#include "proto/cluster.pb.h"
#include "proto/program.pb.h"
#include "worker/assignment.h"
#include "worker/backend.h"
#include "worker/collectives/collective.h"
#include "worker/kernel_choice/bindings.h"
#include "worker/progress.h"
#include "worker/steps/executor.h"
#include "worker/steps/page_tables.h"
#include "worker/steps/state.h"
#include "worker/steps/state_room.h"
#include "worker/steps/step_view.h"
#include "worker/weights/packed_cache.h"
#include "worker/weights/retained_weights.h"
#include "worker/weights/weights.h"

namespace lockstep {

struct WorkerOptions {
  int threads = 1;
  std::vector<int> processors = {};  // One per thread, which is bound to it; empty: not bound.
  // Updated while loading and in every step; outlives the worker. May be null.
  Progress* progress = nullptr;
  const std::atomic<bool>* cancelled = nullptr;  // If true, loading stops with kCancelled.
  // The device that the worker computes on; the collective's operands are there, too. Outlives the
  // worker. Null: this CPU.
  const Backend* backend = nullptr;
  PackedCacheOptions weight_cache = {};  // Only for CPUs; GPUs pack what they load each time.
  // The device's free bytes before any rank on it began to load; 0: the worker asks the device.
  int64_t memory_free_bytes = 0;
  // Weights of an earlier program; what the new program can reuse is not read again. The worker
  // frees them after it has loaded. It frees them before it loads if they have another source, if
  // they are on a GPU, or if old and new weights together do not fit in memory. Null: there are
  // none.
  std::unique_ptr<RetainedWeights>* retained = nullptr;
};

class Worker {
 public:
  // Validates the program and binds every instruction to a kernel. Compares the memory that is
  // needed with the free memory (within the container's limits), then loads and packs this rank's
  // weights. The caller handles the assignment's hosts, group and epoch. Errors are one line and
  // name the rank.
  static absl::StatusOr<std::unique_ptr<Worker>> load(const cluster::Assignment& assignment,
                                                      std::unique_ptr<Collective> collective,
                                                      const WorkerOptions& options);
  // Loads the weights of a rank that this worker may replace, without meeting its peers. Checks all
  // that load() checks, also that KV pages fit.
  static absl::StatusOr<std::unique_ptr<RetainedWeights>> preload(
      const cluster::Assignment& assignment, const WorkerOptions& options);

  int64_t weight_bytes() const { return weights_->bytes(); }
  // The weights' source at the time when they were loaded.
  const SourceMark& source() const { return source_; }
  // The kernels of each linear, as in cluster.Ready; empty if the backend needs no proof of
  // kernels.
  const std::vector<std::string>& kernels() const { return kernels_; }
  // The number of KV pages that fit, and of sequences whose state blocks fit with them.
  int64_t pages_possible() const { return room_.pages; }
  int64_t sequences_possible() const { return room_.sequences; }
  // Allocates the KV pages with ids 0 to `pages` - 1, and all state blocks. Called once per epoch,
  // before its first step.
  absl::Status start(int64_t pages);

  // Frees the pages of an epoch that is over. Called before the ranks of the next epoch meet, since
  // each of them counts the free memory then.
  void drop_pages();
  // A new epoch with the same program: weights stay, pages are dropped and counted again from
  // `assignment`, and start() must be called again. Linears keep their kernels, so the caller
  // checks with computes_as() that the group agreed on these. kResourceExhausted: there is no
  // memory for one page; another rejoin() may still follow.
  absl::Status rejoin(const cluster::Assignment& assignment,
                      std::unique_ptr<Collective> collective);

  // Moves the weights out, for a worker with another program. This worker cannot be used any more.
  std::unique_ptr<RetainedWeights> release();

  // Runs one step and returns this rank's candidates. An invalid Step (page or token ids out of
  // range, more rows than planned) is kInvalidArgument and changes nothing. An empty Step (no rows)
  // enters every collective and returns nothing. For one thread at a time.
  absl::StatusOr<cluster::StepResult> step(const cluster::Step& step);
  // All raw logits of an output of the last step.
  absl::StatusOr<cluster::LogitsReply> logits(const cluster::LogitsRequest& request);

  // Ends a running step. Callable from any thread.
  void abort();
  // Time by operator since the start, as lines for users.
  std::string profile() const { return executor_->profile(); }

 private:
  Worker(const cluster::Assignment& assignment, std::unique_ptr<Collective> collective,
         const WorkerOptions& options);

  absl::Status load(const cluster::Assignment& assignment, const WorkerOptions& options);
  // Binds the program and loads its weights.
  absl::Status prepare(const cluster::Assignment& assignment, const WorkerOptions& options);
  absl::Status load_weights(const cluster::Assignment& assignment, const WorkerOptions& options,
                            const WeightSource& source);
  // The cache file of this rank's packed weights; nullopt: they are not cached.
  absl::StatusOr<std::optional<PackedCache>> open_cache(const WorkerOptions& options,
                                                        int64_t bytes);
  absl::Status count_pages(const cluster::Assignment& assignment);
  absl::Status fail(const absl::Status& status) const;

  const program::Program program_;  // Kernels' arguments point into it.
  const Backend processor_;         // Empty if options have a backend.
  const Backend& backend_;
  Device& device_;
  const StepLimits limits_;
  StepBuffers buffers_;
  ThreadPool threads_;
  std::mutex collective_mutex_;  // abort() may run while rejoin() changes it.
  std::unique_ptr<Collective> collective_;
  Bindings bindings_;
  std::optional<Weights> weights_;
  SourceMark source_;
  std::vector<std::string> kernels_;
  std::unique_ptr<Executor> executor_;
  Progress* progress_;
  std::optional<State> state_;  // Like tables_, set from start() to the epoch's end.
  std::optional<PageTables> tables_;
  StateRoom room_;
  std::vector<OperatorTime> operators_;  // Times in the last step, if it was traced.
  std::optional<uint64_t> last_step_;    // The step whose logits are in memory.
  int64_t last_outputs_ = 0;
};

}  // namespace lockstep
