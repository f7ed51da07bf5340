// SPDX-License-Identifier: Apache-2.0
// The port where workers join. It answers on a completion queue with its own thread, so that calls
// of the public port cannot delay workers. It reads nothing from a call before the caller has
// proved that it knows the token.
#pragma once

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>

#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "base/log_limit.h"
#include "base/threads/mutex.h"
#include "coordinator/cluster/forming/challenges.h"
#include "coordinator/cluster/transport.h"
#include "coordinator/ports/grpc_server.h"
#include "proto/handshake.h"

namespace lockstep {

class WorkerCall;

struct ClusterServerOptions {
  std::string address;  // See Listener::bind.
  std::string token;
  TlsFiles tls;                     // If not given: plain text.
  int max_message_bytes = 4 << 20;  // From a worker.
};

class ClusterServer final : public WorkerTransport {
 public:
  // `listener` outlives it. kInvalidArgument, one line: the address cannot be bound, or the
  // certificate cannot be used.
  static absl::StatusOr<std::unique_ptr<ClusterServer>> start(const ClusterServerOptions& options,
                                                              LinkListener* listener);
  // Cancels every stream.
  ~ClusterServer() override;

  // The bound address: "127.0.0.1:40123".
  const std::string& address() const { return server_->address(); }

  void send(const std::vector<LinkId>& links, const cluster::CoordinatorMessage& message) override
      ABSL_LOCKS_EXCLUDED(mutex_);
  void close(LinkId link, bool after_sending) override ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  friend class WorkerCall;

  ClusterServer(const ClusterServerOptions& options, LinkListener* listener)
      : listener_(listener), challenges_(options.token, draw_nonce()) {}
  void serve();
  // On the queue's thread: answers a new call or makes it a link.
  void take(WorkerCall& call);
  void refuse(WorkerCall& call, const absl::Status& why);
  std::shared_ptr<WorkerCall> find(LinkId link) ABSL_LOCKS_EXCLUDED(mutex_);
  void forget(LinkId link) ABSL_LOCKS_EXCLUDED(mutex_);
  // Counts calls as they begin and end.
  void count(int change) ABSL_LOCKS_EXCLUDED(mutex_);

  LinkListener* const listener_;
  grpc::AsyncGenericService service_;
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  std::unique_ptr<GrpcServer> server_;
  std::thread thread_;

  // Used by the queue's thread.
  Challenges challenges_;
  LogLimit refusals_{std::chrono::seconds(1)};
  LinkId last_link_ = 0;

  Mutex mutex_;
  ConditionVariable call_gone_;
  int calls_ ABSL_GUARDED_BY(mutex_) = 0;  // Includes the awaited one.
  std::map<LinkId, std::shared_ptr<WorkerCall>> links_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep
