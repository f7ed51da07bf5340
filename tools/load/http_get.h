// SPDX-License-Identifier: Apache-2.0
// One GET.
#pragma once

#include <chrono>
#include <string>

#include "base/tls/tls_files.h"
#include "tools/load/url.h"

namespace lockstep {

// The body of an answer of status 200, up to 16 MiB. An error names the URL: nobody listens there,
// the time is over, or it has another answer. Of https: the server's certificate is to be of
// `tls.ca`'s authority (none: of one that the system knows) and name the URL's host; `tls.cert` and
// `tls.key` are shown, if given.
absl::StatusOr<std::string> http_get(const Url& url, std::chrono::milliseconds timeout,
                                     const TlsFiles& tls = {});

}  // namespace lockstep
