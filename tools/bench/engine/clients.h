// SPDX-License-Identifier: Apache-2.0
// Clients of the public port: streams that read as fast as they can.
#pragma once

#include <string>

#include "proto/generate.pb.h"
#include "tools/bench/engine/timeline.h"

namespace lockstep::bench {

// Runs `streams` copies of the request at once and waits for their ends; counts tokens and failures
// in the timeline.
void run_clients(const std::string& address, const v1::GenerateRequest& request, int streams,
                 Timeline& timeline);

}  // namespace lockstep::bench
