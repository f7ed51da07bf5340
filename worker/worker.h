// SPDX-License-Identifier: Apache-2.0
// One rank without its transport: a program bound to kernels, its weights in memory, its KV pages
// and its place in the collectives. worker/main puts it behind a gRPC stream; tests drive it on
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
#include "worker/weights/held_weights.h"
#include "worker/weights/packed_cache.h"
#include "worker/weights/weights.h"

namespace lockstep {

struct WorkerOptions {
  int threads = 1;
  std::vector<int> processors = {};  // That the threads are bound to, one each; empty: to none.
  // Kept up to date while loading and in every step; outlives the worker. Null: nobody asks.
  Progress* progress = nullptr;
  const std::atomic<bool>* cancelled = nullptr;  // Loading stops with kCancelled once it is true.
  // What it computes on, and what holds the collective's operands; outlives the worker. Null: this
  // processor.
  const Backend* backend = nullptr;
  PackedCacheOptions weight_cache = {};  // Of processors; GPUs pack what they load each time.
  // Memory of the device that was free before any rank that shares it began to load; 0: what is
  // free now.
  int64_t memory_free_bytes = 0;
  // Weights of an earlier program: what serves of them is not read again. They are gone once the
  // worker has loaded, and before where they are of another source, or there is no room for them
  // beside the new ones. Null: there are none.
  std::unique_ptr<HeldWeights>* held = nullptr;
};

class Worker {
 public:
  // Validates the program, checks memory against what is free (the container's limits included)
  // before anything is read, loads and packs this rank's weights, binds every instruction. The
  // assignment's hosts, group and epoch are the transport's affair. Errors are one line and name
  // the rank.
  static absl::StatusOr<std::unique_ptr<Worker>> load(const cluster::Assignment& assignment,
                                                      std::unique_ptr<Collective> collective,
                                                      const WorkerOptions& options);
  // The weights of a rank that this worker is to be ready for, read and checked as load() does it,
  // pages counted included, but without a place among its peers.
  static absl::StatusOr<std::unique_ptr<HeldWeights>> preload(const cluster::Assignment& assignment,
                                                              const WorkerOptions& options);

  int64_t weight_bytes() const { return weights_->bytes(); }
  // The weights' source as it was when they were loaded.
  const SourceMark& source() const { return source_; }
  // Of each linear, where kernels are proven: as cluster.Ready has them.
  const std::vector<std::string>& kernels() const { return kernels_; }
  // KV pages that there is room for, and sequences whose state blocks there is room for beside
  // them.
  int64_t pages_possible() const { return room_.pages; }
  int64_t sequences_possible() const { return room_.sequences; }
  // Allocates the pages, ids in Steps are below `pages`, and all blocks. Once per epoch, before its
  // first step.
  absl::Status start(int64_t pages);

  // The epoch is over: frees its pages. Before the ranks of the next one meet, so that each of them
  // counts the memory that none of them uses any more.
  void drop_pages();
  // A new epoch with the same program: weights stay, pages are dropped and counted anew by what
  // `assignment` gives them, and start() is due again. Linears are computed as before:
  // computes_as() says whether the group wants that. kResourceExhausted: there is no room for one
  // page; another rejoin() may still follow.
  absl::Status rejoin(const cluster::Assignment& assignment,
                      std::unique_ptr<Collective> collective);

  // Its weights, for a worker with another program. This one is of no more use.
  std::unique_ptr<HeldWeights> release();

  // Runs one step and gives this rank's candidates. A Step that lies (page or token ids out of
  // range, more rows than planned) is kInvalidArgument and changes nothing. An empty Step (no rows)
  // crosses every collective and gives nothing. One thread at a time.
  absl::StatusOr<cluster::StepResult> step(const cluster::Step& step);
  // All raw logits of an output of the last step.
  absl::StatusOr<cluster::LogitsReply> logits(const cluster::LogitsRequest& request);

  // Ends a step under way. Any thread.
  void abort();
  // Time by operator since the start, as lines for people.
  std::string profile() const { return executor_->profile(); }

 private:
  Worker(const cluster::Assignment& assignment, std::unique_ptr<Collective> collective,
         const WorkerOptions& options);

  absl::Status load(const cluster::Assignment& assignment, const WorkerOptions& options);
  // Binds the program and loads its weights.
  absl::Status prepare(const cluster::Assignment& assignment, const WorkerOptions& options);
  absl::Status load_weights(const cluster::Assignment& assignment, const WorkerOptions& options,
                            const WeightSource& source);
  // The file that keeps this rank's packed weights; nothing: they are not kept.
  absl::StatusOr<std::optional<PackedCache>> open_cache(const WorkerOptions& options,
                                                        int64_t bytes);
  absl::Status count_pages(const cluster::Assignment& assignment);
  absl::Status fail(const absl::Status& status) const;

  const program::Program program_;  // Kernels' arguments point into it.
  const Backend processor_;         // Empty where another was given.
  const Backend& backend_;
  Device& device_;
  const StepLimits limits_;
  StepBuffers buffers_;
  ThreadPool threads_;
  std::mutex collective_mutex_;  // Against an abort() while rejoin() changes it.
  std::unique_ptr<Collective> collective_;
  Bindings bindings_;
  std::optional<Weights> weights_;
  SourceMark source_;
  std::vector<std::string> kernels_;
  std::unique_ptr<Executor> executor_;
  Progress* progress_;
  std::optional<State> state_;  // Both from start() to the epoch's end.
  std::optional<PageTables> tables_;
  StateRoom room_;
  std::vector<OperatorTime> operators_;  // The last step's, if it was traced.
  std::optional<uint64_t> last_step_;    // Whose logits are still there.
  int64_t last_outputs_ = 0;
};

}  // namespace lockstep
