// SPDX-License-Identifier: Apache-2.0
// One call on the cluster's port. It is answered at once, or becomes a link: messages are sent in
// order, received ones are passed on.
#pragma once

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>

#include <deque>
#include <memory>
#include <string>

#include "base/threads/mutex.h"
#include "coordinator/cluster/transport.h"

namespace lockstep {

class ClusterServer;

// Keeps itself alive until gRPC is done with it. Thread-safe, except what is marked as used by the
// queue's thread.
class WorkerCall {
 public:
  enum class Event { kAccepted, kRead, kWritten, kFinished };
  struct Tag {  // The completion queue returns these.
    WorkerCall* call = nullptr;
    Event event = Event::kAccepted;
  };

  ~WorkerCall();

  // Waits for the next call.
  static void accept(ClusterServer* server, grpc::AsyncGenericService* service,
                     grpc::ServerCompletionQueue* queue);

  // ---- The queue's thread ----
  void on(Event event, bool ok);
  const std::string& method() const { return context_.method(); }
  std::string peer() const { return context_.peer(); }
  // "" if the caller sent none.
  std::string metadata(const char* name) const;
  // reply() and refuse() end the call; nothing was read from it.
  void reply(const google::protobuf::MessageLite& message);
  void refuse(const grpc::Status& status);
  // Makes the call a link and begins to read from it. The caller sends through the returned
  // pointer.
  std::shared_ptr<WorkerCall> open(LinkId link);

  // ---- Any thread ----
  // Dropped if the call is over.
  void send(grpc::ByteBuffer message) ABSL_LOCKS_EXCLUDED(mutex_);
  // Ends the call: after pending messages were sent, or at once.
  void close(bool after_sending) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  explicit WorkerCall(ClusterServer* server);
  void on_read(bool ok);
  void write_or_finish() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  ClusterServer* const server_;
  std::shared_ptr<WorkerCall> self_;
  Tag accepted_{this, Event::kAccepted};
  Tag read_{this, Event::kRead};
  Tag written_{this, Event::kWritten};
  Tag finished_{this, Event::kFinished};

  grpc::GenericServerContext context_;
  grpc::GenericServerAsyncReaderWriter stream_{&context_};

  // Used by the queue's thread.
  LinkId link_ = 0;  // 0: not a link.
  grpc::ByteBuffer incoming_;
  bool reading_ = false;
  bool done_ = false;

  Mutex mutex_;
  std::deque<grpc::ByteBuffer> outgoing_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  bool finishing_ ABSL_GUARDED_BY(mutex_) = false;
};

grpc::ByteBuffer to_buffer(const google::protobuf::MessageLite& message);

}  // namespace lockstep
