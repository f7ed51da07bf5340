// SPDX-License-Identifier: Apache-2.0
// One rank without its transport: a program bound to kernels, its weights in memory, its KV pages
// and its place in the collectives. worker/main connects it to a gRPC stream; tests run it on
// threads.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/cluster.pb.h"
#include "worker/assignment.h"
#include "worker/backend.h"
#include "worker/collectives/collective.h"
#include "worker/progress.h"
#include "worker/weights/held_weights.h"
#include "worker/weights/packed_cache.h"

namespace lockstep {

struct WorkerOptions {
  int threads = 1;
  std::vector<int> processors = {};  // One per thread, which is bound to it; empty: none.
  // Updated while loading and in every step; outlives the worker. May be null.
  Progress* progress = nullptr;
  const std::atomic<bool>* cancelled = nullptr;  // If true, loading stops with kCancelled.
  // It computes on this, which has the collective's operands, too; outlives the worker. Null: this
  // CPU.
  const Backend* backend = nullptr;
  PackedCacheOptions weight_cache = {};  // Only for CPUs; GPUs pack what they load each time.
  // The device's free memory before any rank that shares it began to load; 0: what is free now.
  int64_t memory_free_bytes = 0;
  // Weights of an earlier program: weights the new program can reuse are not read again. They are
  // freed after the worker has loaded, or before if they have another source, or there is no room
  // for both. Null: there are none.
  std::unique_ptr<HeldWeights>* held = nullptr;
};

class Worker {
 public:
  // Validates the program, compares the memory that it needs with what is free (within the
  // container's limits) before anything is read, loads and packs this rank's weights, binds every
  // instruction. The transport handles the assignment's hosts, group and epoch. Errors are one line
  // and name the rank.
  static absl::StatusOr<std::unique_ptr<Worker>> load(const cluster::Assignment& assignment,
                                                      std::unique_ptr<Collective> collective,
                                                      const WorkerOptions& options);
  // The weights of a rank that this worker prepares for, read and checked like load(), including
  // the count of pages, but without joining peers.
  static absl::StatusOr<std::unique_ptr<HeldWeights>> preload(const cluster::Assignment& assignment,
                                                              const WorkerOptions& options);
  virtual ~Worker() = default;

  virtual int64_t weight_bytes() const = 0;
  // The weights' source at the time when they were loaded.
  virtual const SourceMark& source() const = 0;
  // One per linear if kernels are proven, as in cluster.Ready.
  virtual const std::vector<std::string>& kernels() const = 0;
  // The number of KV pages that fit, and of sequences whose state blocks fit with them.
  virtual int64_t pages_possible() const = 0;
  virtual int64_t sequences_possible() const = 0;
  // Allocates the pages, whose ids in Steps are below `pages`, and all blocks. Called once per
  // epoch, before its first step.
  virtual absl::Status start(int64_t pages) = 0;

  // The epoch is over: frees its pages. Called before the ranks of the next one meet, so that each
  // counts the memory that is then free.
  virtual void drop_pages() = 0;
  // A new epoch with the same program: weights stay, pages are dropped and counted again from
  // `assignment`, and start() must be called again. Linears are computed as before: computes_as()
  // says whether the group requires that. kResourceExhausted: there is no room for one page;
  // another rejoin() may still follow.
  virtual absl::Status rejoin(const cluster::Assignment& assignment,
                              std::unique_ptr<Collective> collective) = 0;

  // Its weights, for a worker with another program. This worker cannot be used any more.
  virtual std::unique_ptr<HeldWeights> release() = 0;

  // Runs one step and returns this rank's candidates. An invalid Step (page or token ids out of
  // range, more rows than planned) is kInvalidArgument and changes nothing. An empty Step (no rows)
  // crosses every collective and returns nothing. For one thread at a time.
  virtual absl::StatusOr<cluster::StepResult> step(const cluster::Step& step) = 0;
  // All raw logits of an output of the last step.
  virtual absl::StatusOr<cluster::LogitsReply> logits(const cluster::LogitsRequest& request) = 0;

  // Ends a running step. Callable from any thread.
  virtual void abort() = 0;
  // Time by operator since the start, as lines for users.
  virtual std::string profile() const = 0;
};

}  // namespace lockstep
