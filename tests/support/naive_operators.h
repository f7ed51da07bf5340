// SPDX-License-Identifier: Apache-2.0
// Every operator by its formula, on matrices of floats with sums in double: the specification that
// graphs, programs and kernels are held against.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "operators/op.h"
#include "proto/program.pb.h"

namespace lockstep::naive {

struct Matrix {
  Matrix() = default;
  Matrix(int64_t rows, int64_t cols) : rows(rows), cols(cols), data(rows * cols) {}
  float& at(int64_t row, int64_t col) { return data[row * cols + col]; }
  const float& at(int64_t row, int64_t col) const { return data[row * cols + col]; }

  int64_t rows = 0;
  int64_t cols = 0;
  std::vector<float> data;
};

struct OperatorArgs {
  std::span<const Matrix> inputs;
  std::span<const Matrix* const> parameters;
  const program::Attributes& attributes;
  std::span<const int32_t> tokens;  // Of one sequence from position 0 on.
  std::span<const int64_t> output_rows;
  int64_t rope_length = 0;
  int64_t prefix_rows = 0;
  int64_t held_position = 0;
};

// All but collectives and top_candidates.
std::vector<Matrix> run_operator(Op op, const OperatorArgs& args);

}  // namespace lockstep::naive
