// SPDX-License-Identifier: Apache-2.0
// The stream to the coordinator over gRPC. Before it is opened both sides prove that they know the
// join token.
#pragma once

#include <memory>
#include <stop_token>
#include <string>

#include "absl/status/statusor.h"
#include "base/tls_files.h"
#include "worker/link.h"

namespace lockstep {

struct DialOptions {
  std::string coordinator;  // "host:port", "unix:/path" or "unix-abstract:name".
  std::string token;
  TlsFiles tls;  // Not given: plain. The coordinator's certificate is of tls.ca and names its host,
  bool knows_coordinator = false;  // which is not looked at where it started this worker.
};

// kUnavailable: nobody answers there now, so that another try may help. kPermissionDenied: it does
// not know the token, or is of another version. kCancelled: `stop` was requested.
absl::StatusOr<std::unique_ptr<Link>> dial(const DialOptions& options, const std::stop_token& stop);

}  // namespace lockstep
