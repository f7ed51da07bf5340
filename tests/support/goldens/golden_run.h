// SPDX-License-Identifier: Apache-2.0
// Runs a reference model in this process and compares it with the reference's results.
#pragma once

#include "tests/support/cluster/in_process_cluster.h"
#include "tests/support/goldens/golden_case.h"

namespace lockstep {

// Expects every prompt's greedy tokens, and the logits at its end within 2e-4 of the largest one.
// All prompts run at once. This sets the limits in `options`.
void expect_golden(const GoldenCase& golden, InProcessOptions options);

}  // namespace lockstep
