// SPDX-License-Identifier: Apache-2.0
// The routes of the page at / and its files.
#pragma once

#include <vector>

#include "coordinator/http/router.h"

namespace lockstep {

// The files may load other files only from this server, may run scripts only from files, and may
// not be shown in a frame (Content-Security-Policy).
std::vector<http::Route> page_routes();

}  // namespace lockstep
