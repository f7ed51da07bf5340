// SPDX-License-Identifier: Apache-2.0
// Runs the model of a golden in this process and compares its results with the reference's.
#pragma once

#include "tests/support/cluster/in_process_cluster.h"
#include "tests/support/goldens/golden_case.h"

namespace lockstep {

// Expects the greedy tokens of every prompt. The logits at a prompt's end may differ by 2e-4 of the
// golden's largest magnitude. All prompts run at once; the limits in `options` are replaced.
void expect_golden(const GoldenCase& golden, InProcessOptions options);

}  // namespace lockstep
