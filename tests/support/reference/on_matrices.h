// SPDX-License-Identifier: Apache-2.0
// The reference on matrices of floats, for interpreters of graphs and programs. Only results are
// rounded, to float32, and a sequence is given as a whole, from position 0 on.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "operators/attributes.h"
#include "operators/op.h"

namespace lockstep::naive {

struct Matrix {
  Matrix() = default;
  Matrix(int64_t height, int64_t width) : rows(height), cols(width), data(height * width) {}
  float& at(int64_t row, int64_t col) { return data[row * cols + col]; }
  const float& at(int64_t row, int64_t col) const { return data[row * cols + col]; }

  int64_t rows = 0;
  int64_t cols = 0;
  std::vector<float> data;
};

struct OperatorArgs {
  std::span<const Matrix* const>
      inputs;  // In the order of the operator's schema; ids are floats, too.
  const OperatorAttrs& attrs;
  std::span<const int32_t> tokens;
  std::span<const int64_t> output_rows;
  int64_t rope_length = 0;
  int64_t prefix_rows = 0;
  int64_t held_position = 0;
};

// Fills `outputs`, whose shapes match the operator's schema (operators/schema/schema.cc). Runs all
// operators except collectives and top_candidates.
void run_operator(Op op, const OperatorArgs& args, std::span<Matrix> outputs);

}  // namespace lockstep::naive
