// SPDX-License-Identifier: Apache-2.0
// One worker's stream as the coordinator sees it: messages go out in order, what comes in is handed
// on.
#pragma once

#include <grpcpp/grpcpp.h>

#include <deque>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "proto/cluster.grpc.pb.h"

namespace lockstep {

class WorkerLink;

// Who hears of links. Called on gRPC's threads, for one link never at the same time; must not
// block.
class LinkListener {
 public:
  virtual ~LinkListener() = default;
  virtual void on_message(const std::shared_ptr<WorkerLink>& link,
                          cluster::WorkerMessage message) = 0;
  virtual void on_closed(const std::shared_ptr<WorkerLink>& link) = 0;
};

// Lives until gRPC is done with the call and nobody holds it. Thread-safe.
class WorkerLink final
    : public grpc::ServerBidiReactor<cluster::WorkerMessage, cluster::CoordinatorMessage> {
 public:
  // The reactor for gRPC; it keeps itself alive until OnDone. `listener` outlives the server.
  static WorkerLink* open(LinkListener* listener);

  // Queues a message; dropped once the stream is over.
  void send(cluster::CoordinatorMessage message) ABSL_LOCKS_EXCLUDED(mutex_);
  // Ends the stream once what was queued is sent.
  void close() ABSL_LOCKS_EXCLUDED(mutex_);

  // Set once by the listener, from the worker's first message; read by anyone after that.
  std::optional<cluster::Hello> hello;
  // It has its weights in memory. Of the thread that forms groups.
  bool loaded = false;

 private:
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone() override;
  void write_or_finish() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  std::shared_ptr<WorkerLink> self_;
  LinkListener* listener_ = nullptr;
  cluster::WorkerMessage incoming_;

  absl::Mutex mutex_;
  std::deque<cluster::CoordinatorMessage> outgoing_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace lockstep
