// SPDX-License-Identifier: Apache-2.0
#include "tests/worker/kernels/conversation.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/numbers/float16.h"

namespace lockstep {

static float to_bf16(float x) { return bf16_to_float(float_to_bf16(x)); }

// Each of the matrix's rows has vectors of `dim` columns.
static void round_vectors(const Matrix& matrix, int64_t dim) {
  const TensorView& view = matrix.view();
  for (int64_t i = 0; i < view.rows * view.cols / dim; ++i) {
    float* x = view.row<float>(0) + i * dim;
    float highest = 0;
    for (int64_t d = 0; d < dim; ++d) highest = std::max(highest, std::abs(x[d]));
    const float scale = to_bf16(highest / 127);
    for (int64_t d = 0; d < dim; ++d) {
      x[d] = scale == 0 ? 0 : to_bf16(std::nearbyint(x[d] / scale) * scale);
    }
  }
}

Conversation::Conversation(const Shape& shape, float key_size)
    : shape_(shape), sinks_(1, shape.heads) {
  for (size_t s = 0; s < shape.lengths.size(); ++s) {
    const auto seed = static_cast<uint32_t>(10 * s);
    const int64_t rows = shape.lengths[s];
    q_.push_back(Matrix::random(rows, shape.heads * shape.head_dim, seed));
    k_.push_back(Matrix::random(rows, shape.kv_heads * shape.head_dim, seed + 1));
    float* keys = k_.back().view().row<float>(0);
    for (int64_t i = 0; i < rows * k_.back().view().cols; ++i) keys[i] *= key_size;
    v_.push_back(Matrix::random(rows, shape.kv_heads * v_dim(), seed + 2));
    copy_values_of_keys(s);
  }
  for (int64_t h = 0; h < shape.heads; ++h) {
    slopes_.push_back(std::ldexp(1.0f, static_cast<int>(-h)));
    sinks_.view().row<float>(0)[h] = static_cast<float>(3 * h - 4);
    kv_head_of_.push_back(static_cast<int32_t>(h * shape.kv_heads / shape.heads));
  }
}

void Conversation::copy_values_of_keys(size_t sequence) {
  if (!shape_.values_in_keys) return;
  const float* keys = k_[sequence].view().row<float>(0);
  float* values = v_[sequence].view().row<float>(0);
  for (int64_t i = 0; i < v_[sequence].view().rows * shape_.kv_heads; ++i) {
    std::copy_n(keys + i * shape_.head_dim, v_dim(), values + i * v_dim());
  }
}

void Conversation::round_to_codes() {
  for (size_t s = 0; s < v_.size(); ++s) {
    round_vectors(k_[s], shape_.head_dim);
    round_vectors(v_[s], v_dim());
    copy_values_of_keys(s);
  }
}

void Conversation::take_magnitudes(DType dtype) {
  for (size_t s = 0; s < v_.size(); ++s) {
    for (int64_t i = 0; i < v_[s].view().rows * shape_.kv_heads; ++i) {
      float* values = v_[s].view().row<float>(0) + i * v_dim();
      for (int64_t d = 0; d < v_dim(); ++d) values[d] = std::abs(values[d]);
      if (dtype != DType::kI8) continue;
      float highest = *std::max_element(values, values + v_dim());
      const float* keys = k_[s].view().row<float>(0) + i * shape_.head_dim;
      for (int64_t d = 0; d < shape_.head_dim && shape_.values_in_keys; ++d) {
        highest = std::max(highest, std::abs(keys[d]));
      }
      std::fill_n(values, v_dim(), highest);
    }
  }
  shape_.values_in_keys = false;
}

std::vector<Matrix> Conversation::run_all(const KernelEntry& kernel, const Schedule& schedule) {
  start(kernel, schedule);
  std::vector<Matrix> outputs;
  for (const int64_t length : shape_.lengths) {
    outputs.emplace_back(length, shape_.heads * v_dim());
  }
  std::vector<int64_t> done(shape_.lengths.size(), 0);
  while (done != shape_.lengths) step(kernel, schedule, done, outputs);
  return outputs;
}

void Conversation::start(const KernelEntry& kernel, const Schedule& schedule) {
  page_bytes_ = kernel.page_bytes({schedule.page_tokens, shape_.kv_heads, shape_.head_dim,
                                   shape_.values_in_keys ? 0 : v_dim(), kernel.weight});
  const auto count = [&](int64_t length) {
    return (length + schedule.page_tokens - 1) / schedule.page_tokens;
  };
  int64_t total = 0;
  for (const int64_t length : shape_.lengths) total += count(length);
  std::vector<int32_t> ids(static_cast<size_t>(total));
  std::iota(ids.begin(), ids.end(), 0);
  std::mt19937 random(kTestSeed);
  if (schedule.shuffle) std::shuffle(ids.begin(), ids.end(), random);
  pages_.clear();
  auto next = ids.begin();
  for (const int64_t length : shape_.lengths) {
    pages_.emplace_back(next, next + count(length));
    next += count(length);
  }
  memory_.assign(static_cast<size_t>(total * page_bytes_), std::byte{0xff});
}

AttentionAttrs Conversation::attrs() const {
  return {.heads = shape_.heads,
          .kv_heads = shape_.kv_heads,
          .head_dim = shape_.head_dim,
          .v_dim = v_dim(),
          .scale = 1 / std::sqrt(static_cast<float>(shape_.head_dim)),
          .values_in_keys = shape_.values_in_keys,
          .window = shape_.window,
          .chunk = shape_.chunk,
          .cap = shape_.cap,
          .slopes = {slopes_.data(), shape_.slopes ? shape_.heads : 0},
          .kv_head_of = {kv_head_of_.data(), shape_.heads}};
}

// Rows of a sequence of which `left` rows are left.
static int64_t rows_of_step(const Schedule& schedule, int64_t max, int64_t left) {
  const int64_t together = left > schedule.last_alone ? left - schedule.last_alone : 1;
  return std::min({max, left, together});
}

void Conversation::step(const KernelEntry& kernel, const Schedule& schedule,
                        std::vector<int64_t>& done, std::vector<Matrix>& outputs) {
  std::vector<StepSequence> sequences;
  std::vector<int32_t> positions, sequence_of_row;
  std::vector<size_t> which;
  for (size_t s = 0; s < done.size(); ++s) {
    const int64_t prefix = std::min(shape_.prefix_rows, shape_.lengths[s]);
    const int64_t max = done[s] < prefix ? std::max(schedule.chunk, prefix) : schedule.chunk;
    const int64_t rows = rows_of_step(schedule, max, shape_.lengths[s] - done[s]);
    if (rows == 0) continue;
    const auto first_row = static_cast<int64_t>(positions.size());
    for (int64_t r = 0; r < rows; ++r) {
      positions.push_back(static_cast<int32_t>(done[s] + r));
      sequence_of_row.push_back(static_cast<int32_t>(sequences.size()));
      which.push_back(s);
    }
    sequences.push_back({.first_row = first_row,
                         .rows = rows,
                         .first_position = done[s],
                         .pages = pages_[s].data(),
                         .prefix_rows = prefix});
    done[s] += rows;
  }
  const auto rows = static_cast<int64_t>(positions.size());
  const int64_t width = shape_.heads * v_dim(), k_width = shape_.kv_heads * shape_.head_dim;
  Matrix q(rows, shape_.heads * shape_.head_dim), k(rows, k_width, DType::kF32, k_width + 3);
  Matrix v(rows, shape_.kv_heads * v_dim());
  const Matrix out(rows, width, DType::kF32, width + 1);
  for (size_t r = 0; r < which.size(); ++r) {
    const auto copy = [&](const Matrix& from, const Matrix& to) {
      std::memcpy(to.view().row<float>(static_cast<int64_t>(r)),
                  from.view().row<float>(positions[r]),
                  static_cast<size_t>(from.view().cols) * sizeof(float));
    };
    copy(q_[which[r]], q);
    copy(k_[which[r]], k);
    copy(v_[which[r]], v);
  }
  StepView view{.rows = rows,
                .positions = positions.data(),
                .sequence_of_row = sequence_of_row.data(),
                .sequences = sequences.data(),
                .sequence_count = static_cast<int64_t>(sequences.size()),
                .longest = schedule.longest};
  KernelArgs args;
  args.in[0] = q.view();
  args.in[1] = k.view();
  args.in[2] = shape_.values_in_keys ? k.view() : v.view();
  if (shape_.sinks) args.in[3] = sinks_.view();
  args.out[0] = out.view();
  args.attrs = attrs();
  args.state = {memory_.data(), page_bytes_, static_cast<int64_t>(memory_.size()) / page_bytes_,
                schedule.page_tokens, kernel.weight};
  args.step = &view;
  run(kernel, args, schedule.threads);
  if (schedule.read_again) {
    for (Matrix* x : {&k, &v}) {
      for (int64_t r = 0; r < rows; ++r) std::fill_n(x->view().row<float>(r), x->view().cols, NAN);
    }
    for (int64_t r = 0; r < rows; ++r) std::fill_n(out.view().row<float>(r), width, NAN);
    args.attrs.attention().read_only = true;
    run(kernel, args, schedule.threads);
  }
  for (size_t r = 0; r < which.size(); ++r) {
    std::memcpy(outputs[which[r]].view().row<float>(positions[r]),
                out.view().row<float>(static_cast<int64_t>(r)),
                static_cast<size_t>(width) * sizeof(float));
  }
}

}  // namespace lockstep
