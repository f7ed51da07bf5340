// SPDX-License-Identifier: Apache-2.0
// The page at / and the files that it needs.
#pragma once

#include <vector>

#include "coordinator/http/router.h"

namespace lockstep {

// They may load from this server alone, run no script that is not in a file, and be shown in no
// frame (Content-Security-Policy).
std::vector<http::Route> page_routes();

}  // namespace lockstep
