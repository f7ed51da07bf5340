// SPDX-License-Identifier: Apache-2.0
// A reference model run in this process, against what the reference computes.
#pragma once

#include "tests/support/cluster/in_process_cluster.h"
#include "tests/support/goldens/golden_case.h"

namespace lockstep {

// Every prompt's greedy tokens, and the logits of its end within 2e-4 of the largest one; all
// prompts at once. Limits of the options are set here.
void expect_golden(const GoldenCase& golden, InProcessOptions options);

}  // namespace lockstep
