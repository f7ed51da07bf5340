// SPDX-License-Identifier: Apache-2.0
// Flags that are fields of a GenerateRequest.
#pragma once

#include <CLI/CLI.hpp>

#include "proto/generate.pb.h"

namespace lockstep {

// Sampling and length; they write into `request`, which outlives the application.
void add_sampling_flags(CLI::App& app, v1::GenerateRequest& request);
// Additional flags of generate: --n, --logprobs.
void add_answer_flags(CLI::App& app, v1::GenerateRequest& request);

}  // namespace lockstep
