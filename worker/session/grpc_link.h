// SPDX-License-Identifier: Apache-2.0
// The stream to the coordinator over gRPC. Before it is opened both sides prove that they know the
// join token.
#pragma once

#include <memory>
#include <stop_token>
#include <string>

#include "absl/status/statusor.h"
#include "base/tls/reloading_tls.h"
#include "worker/session/link.h"

namespace lockstep {

struct DialOptions {
  std::string coordinator;  // "host:port", "unix:/path" or "unix-abstract:name".
  std::string token;
  // Null: plain text. Else the coordinator's certificate must be signed by this authority, and name
  // the host.
  ReloadingTls* tls = nullptr;
  bool knows_coordinator = false;  // It started this worker: the host name is not checked.
};

// kUnavailable: there is no answer now, another try may help. kPermissionDenied: the coordinator
// does not know the token, or has another version. kCancelled: `stop` was requested.
absl::StatusOr<std::unique_ptr<Link>> dial(const DialOptions& options, const std::stop_token& stop);

}  // namespace lockstep
