// SPDX-License-Identifier: Apache-2.0
// The stream to the coordinator over gRPC. Before it is opened both sides prove that they know the
// join token.
#pragma once

#include <memory>
#include <stop_token>
#include <string>

#include "absl/status/statusor.h"
#include "worker/link.h"

namespace lockstep {

// `coordinator` is "host:port" or "unix:/path". kUnavailable: nobody answers there now, so that
// another try may help. kPermissionDenied: it does not know the token, or is of another version.
// kCancelled: `stop` was requested.
absl::StatusOr<std::unique_ptr<Link>> dial(const std::string& coordinator, const std::string& token,
                                           const std::stop_token& stop);

}  // namespace lockstep
