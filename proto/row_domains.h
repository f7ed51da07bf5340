// SPDX-License-Identifier: Apache-2.0
// A program's row domains, which give the number of rows of its values.
#pragma once

#include <cstdint>
#include <vector>

#include "proto/program.pb.h"

namespace lockstep {

// Tokens and outputs with rows_each 1: the list of every graph and program begins with these.
std::vector<program::RowDomain> default_row_domains();

// A domain's rows in the largest step.
int64_t max_rows(const program::RowDomain& domain, const program::Limits& limits);

// A domain's rows in a step of this many tokens and outputs.
int64_t rows_in(const program::RowDomain& domain, int64_t tokens, int64_t outputs);

}  // namespace lockstep
