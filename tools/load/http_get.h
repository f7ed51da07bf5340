// SPDX-License-Identifier: Apache-2.0
// A single GET request.
#pragma once

#include <chrono>
#include <string>

#include "base/tls/tls_files.h"
#include "tools/load/url.h"

namespace lockstep {

// The body of an answer with status 200, up to 16 MiB. An error names the URL: nothing listens
// there, the time is over, or the answer has another status. For https: the server's certificate
// must be signed by `tls.ca` (none: by an authority that the system knows) and name the URL's host;
// `tls.cert` and `tls.key` are presented, if given.
absl::StatusOr<std::string> http_get(const Url& url, std::chrono::milliseconds timeout,
                                     const TlsFiles& tls = {});

}  // namespace lockstep
