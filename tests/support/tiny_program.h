// SPDX-License-Identifier: Apache-2.0
// Small hand-made programs, for tests that need a Program and no model.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "operators/schema/schema.h"
#include "proto/cluster.pb.h"
#include "proto/program.pb.h"

namespace lockstep {

// Appends parts of a program; the memory of values is never reused.
class ProgramBuilder {
 public:
  ProgramBuilder(int rank, int ranks, int64_t vocab, int64_t hidden);

  int value(const std::string& name, int64_t cols, int rows = kTokenRows,
            program::DType dtype = program::F32);
  // A view of columns [begin, end) of another value, with its instruction.
  int columns(int value, int64_t begin, int64_t end);
  // A weight of rows [row_begin, row_end) of a source [source_rows, cols]. For BIAS and NORM, the
  // source is [cols], and row_begin and row_end are columns of it.
  int weight(const std::string& name, program::Role role, int64_t source_rows, int64_t cols,
             int64_t row_begin, int64_t row_end, program::DType dtype = program::F32);
  program::Instruction& add(program::Op op, const std::vector<int>& values,
                            const std::vector<int>& weights, const std::vector<int>& outputs);
  int gather(const std::string& name, int value, const std::vector<int64_t>& boundaries);

  program::Program program;
};

// A program of embed, all_reduce, select_rows, linear with a bias, and top_candidates.
program::Program tiny_program(int rank = 0, int ranks = 1);

// A rank's assignment of a program, with random weights and 16 pages.
cluster::Assignment random_assignment(program::Program program = tiny_program());

// A transformer layer (norms, attention, MLP) in the gather strategy, for one or two ranks. The
// vocabulary has 100 tokens, the hidden size is 8, the MLP has 6 columns, and two query heads of 4
// columns share one KV head. Logits do not depend on the number of ranks.
program::Program layer_program(int rank = 0, int ranks = 1);

// The same program, with gathered values and their parts in memory that ranks share.
program::Program shared_layer_program(int rank = 0, int ranks = 1);

}  // namespace lockstep
