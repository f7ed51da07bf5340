// SPDX-License-Identifier: Apache-2.0
// Workers dial in here, and groups are formed of them: enough workers, one program each, weights
// loaded, a first step across all ranks. A lost worker ends the epoch; form() makes the next one of
// those that are there or come back.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "coordinator/cluster/epoch.h"
#include "coordinator/cluster/group.h"
#include "proto/program.pb.h"
#include "sharding/worker_facts.h"

namespace lockstep {

struct RemoteClusterOptions {
  int workers = 1;    // Ranks of a group.
  std::string token;  // A worker must bring it; empty: none asked for.
  std::string checkpoint;
  bool random_weights = false;
  uint64_t random_seed = 0;
  bool embedding_in_file = false;
  int64_t kv_memory_bytes = 0;  // Of each worker; 0: what is left.
  int64_t max_pages = 0;
  absl::Duration collective_timeout = absl::Seconds(30);
  absl::Duration step_timeout = absl::Seconds(60);
  absl::Duration load_timeout = absl::Minutes(60);
  // One program per rank. Called by the engine's thread whenever a group forms.
  std::function<absl::StatusOr<std::vector<program::Program>>(std::vector<WorkerFacts>)> compile;
  // Bytes of weights loaded by all ranks together; from gRPC's threads, one at a time.
  std::function<void(int64_t done, int64_t total)> progress;
};

// Thread-safe; form() by one thread at a time. Outlives the server that its service is registered
// with.
class RemoteCluster final : public Cluster, public LinkListener {
 public:
  explicit RemoteCluster(RemoteClusterOptions options);
  ~RemoteCluster() override;

  grpc::Service* service();

  absl::StatusOr<std::unique_ptr<Group>> form() override ABSL_LOCKS_EXCLUDED(mutex_);
  void shutdown() override;
  // form() returns `reason` now and ever after: no group will ever stand.
  void give_up(absl::Status reason) ABSL_LOCKS_EXCLUDED(mutex_);
  // Workers that have joined and not been lost.
  int joined() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  class Service;

  void on_message(const std::shared_ptr<WorkerLink>& link, cluster::WorkerMessage message) override;
  void on_closed(const std::shared_ptr<WorkerLink>& link) override;
  void on_hello(const std::shared_ptr<WorkerLink>& link, const cluster::Hello& hello);
  void on_failure(int rank, const cluster::Failure& failure) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void on_progress(int rank, const cluster::LoadProgress& progress)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  absl::StatusOr<std::shared_ptr<Epoch>> open_epoch() ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<std::unique_ptr<Group>> try_form() ABSL_LOCKS_EXCLUDED(mutex_);
  void assign(Epoch& epoch, const std::vector<program::Program>& programs);
  bool is_over() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool enough_or_over() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const RemoteClusterOptions options_;
  std::unique_ptr<Service> service_;
  mutable absl::Mutex mutex_;
  std::vector<std::shared_ptr<WorkerLink>> links_ ABSL_GUARDED_BY(mutex_);  // As they joined.
  std::shared_ptr<Epoch> epoch_ ABSL_GUARDED_BY(mutex_);                    // The last one opened.
  uint64_t epochs_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<cluster::LoadProgress> loaded_ ABSL_GUARDED_BY(mutex_);
  absl::Status over_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep
