// SPDX-License-Identifier: Apache-2.0
// One GET.
#pragma once

#include <chrono>
#include <string>

#include "tools/load/url.h"

namespace lockstep {

// The body of an answer of status 200, up to 16 MiB. An error names the URL: nobody listens there,
// the time is over, or it has another answer.
absl::StatusOr<std::string> http_get(const Url& url, std::chrono::milliseconds timeout);

}  // namespace lockstep
