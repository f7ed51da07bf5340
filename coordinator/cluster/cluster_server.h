// SPDX-License-Identifier: Apache-2.0
// The port where workers join: gRPC over HTTP/2 on an I/O thread of its own, so that clients of
// other ports cannot delay workers. It reads no call's body before the caller has proved that it
// knows the token.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/log_limit.h"
#include "base/threads/mutex.h"
#include "base/tls/tls_files.h"
#include "coordinator/cluster/forming/challenges.h"
#include "coordinator/cluster/transport.h"
#include "coordinator/http/connection/server.h"
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
  // `listener` outlives the server. kInvalidArgument, one line: the address cannot be bound, or the
  // certificate cannot be used.
  static absl::StatusOr<std::unique_ptr<ClusterServer>> start(const ClusterServerOptions& options,
                                                              LinkListener* listener);
  // Ends every stream with kUnavailable.
  ~ClusterServer() override;

  // The bound address: "127.0.0.1:40123".
  const std::string& address() const { return server_->address(); }

  void send(const std::vector<LinkId>& links, const cluster::CoordinatorMessage& message) override
      ABSL_LOCKS_EXCLUDED(mutex_);
  void close(LinkId link, bool after_sending) override ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  ClusterServer(const ClusterServerOptions& options, LinkListener* listener)
      : listener_(listener),
        max_message_bytes_(static_cast<size_t>(options.max_message_bytes)),
        challenges_(options.token, draw_nonce()) {}

  // On the I/O thread: each answers a new call, or says why it is refused.
  void answer(const std::shared_ptr<http::Exchange>& call);
  absl::Status challenge(const std::shared_ptr<http::Exchange>& call);
  absl::Status join(const std::shared_ptr<http::Exchange>& call) ABSL_LOCKS_EXCLUDED(mutex_);
  void log_refused(const http::Request& call, const absl::Status& why);
  void end(LinkId link) ABSL_LOCKS_EXCLUDED(mutex_);
  std::shared_ptr<WorkerCall> find(LinkId link) ABSL_LOCKS_EXCLUDED(mutex_);

  LinkListener* const listener_;
  const size_t max_message_bytes_;

  // Used by the I/O thread.
  Challenges challenges_;
  LogLimit refusals_{std::chrono::seconds(1)};
  LinkId last_link_ = 0;

  Mutex mutex_;
  std::map<LinkId, std::shared_ptr<WorkerCall>> links_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<http::Server> server_;  // Destroyed first: its thread uses the rest.
};

}  // namespace lockstep
