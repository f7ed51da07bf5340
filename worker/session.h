// SPDX-License-Identifier: Apache-2.0
// One connection to the coordinator: a thread reads, so that an abort reaches a spinning collective
// at once; the caller's thread runs what was read, in order. The worker itself outlives the
// connection.
#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <deque>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "proto/cluster.grpc.pb.h"
#include "worker/main.h"
#include "worker/worker.h"

namespace lockstep {

inline constexpr uint32_t kWorkerProtocolVersion = 1;

// What survives an epoch: weights in memory serve the next one when the program is the same.
struct KeptWorker {
  std::unique_ptr<Worker> worker;
  std::string program;     // Serialized.
  std::string checkpoint;  // And the seed of random weights.
};

class Session {
 public:
  Session(const WorkerMainOptions& options, const Backend& backend, KeptWorker* kept);

  // Connects, joins and serves until the stream ends. OK: the coordinator went away.
  // kPermissionDenied: it will not have us, and why. kInternal: the device failed, and is of no
  // more use to this process.
  absl::Status run();

 private:
  using Stream = grpc::ClientReaderWriter<cluster::WorkerMessage, cluster::CoordinatorMessage>;

  cluster::Hello hello() const;
  void read_all(Stream* stream);
  void end() ABSL_LOCKS_EXCLUDED(mutex_);
  // Says no more, and waits until the coordinator has heard what was said: a call that is cancelled
  // drops what still lies on its way.
  void hang_up(Stream* stream) ABSL_LOCKS_EXCLUDED(mutex_, write_mutex_);
  std::optional<cluster::CoordinatorMessage> next() ABSL_LOCKS_EXCLUDED(mutex_);
  bool has_mail() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void send(cluster::WorkerMessage message) ABSL_LOCKS_EXCLUDED(write_mutex_);

  absl::Status handle(const cluster::CoordinatorMessage& message);
  absl::Status take(const cluster::Assignment& assignment);
  absl::StatusOr<std::unique_ptr<Collective>> meet(const cluster::Assignment& assignment);
  absl::Status load(const cluster::Assignment& assignment, std::unique_ptr<Collective> collective,
                    int64_t memory_free);
  void report(const absl::Status& status);
  void abort_epoch(uint64_t epoch) ABSL_LOCKS_EXCLUDED(mutex_);

  const WorkerMainOptions& options_;
  const Backend& backend_;
  KeptWorker* const kept_;
  std::atomic<bool> cancelled_{false};  // The epoch under way was aborted.
  uint64_t epoch_ = 0;                  // Of the caller's thread.

  absl::Mutex mutex_;
  std::deque<cluster::CoordinatorMessage> mail_ ABSL_GUARDED_BY(mutex_);
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t assigned_epoch_ ABSL_GUARDED_BY(mutex_) = 0;  // The last one read.
  uint64_t aborted_epoch_ ABSL_GUARDED_BY(mutex_) = 0;   // It and all before it are over.
  Worker* running_ ABSL_GUARDED_BY(mutex_) = nullptr;    // What an abort has to reach.

  absl::Mutex write_mutex_;
  Stream* stream_ ABSL_GUARDED_BY(write_mutex_) = nullptr;
};

}  // namespace lockstep
