// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "proto/attributes.h"
#include "tests/support/naive_kernels.h"

namespace lockstep::naive {

Matrices rope_table(const Args& a) {
  const program::RopeTableAttrs& table = a.attributes.rope_table();
  const int64_t half = table.inv_freq_size() / (table.lengths_size() + 1);
  const int64_t set = std::count_if(table.lengths().begin(), table.lengths().end(),
                                    [&](int64_t length) { return length < a.rope_length; });
  Matrix out(static_cast<int64_t>(a.tokens.size()), 2 * half);
  for (int64_t r = 0; r < out.rows; ++r) {
    const bool behind = r >= a.prefix_rows;
    int64_t position = r;
    if (table.position_row() == program::HELD && behind) position = a.held_position;
    if (table.position_row() == program::BLOCK) position = behind ? r - a.prefix_rows + 1 : 0;
    const double length = static_cast<double>(std::max(r + 1, table.dynamic_length()));
    const double stretch = double{table.dynamic_factor()} * length /
                               static_cast<double>(std::max<int64_t>(1, table.dynamic_length())) -
                           (double{table.dynamic_factor()} - 1);
    for (int64_t i = 0; i < half; ++i) {
      double frequency = table.inv_freq(static_cast<int>(set * half + i));
      if (table.dynamic_length() > 0) {
        const double d = static_cast<double>(2 * half);
        const double base = double{table.theta()} * std::pow(stretch, d / (d - 2));
        frequency = std::pow(base, -2.0 * static_cast<double>(i) / d);
      }
      const double angle = static_cast<double>(position) * frequency;
      out.at(r, i) = static_cast<float>(std::cos(angle) * table.factor());
      out.at(r, half + i) = static_cast<float>(std::sin(angle) * table.factor());
    }
  }
  return {std::move(out)};
}

Matrices rope(const Args& a) {
  const program::RopeAttrs& rope = a.attributes.rope();
  const Matrix &x = a.inputs[0], &table = a.inputs[1];
  const int64_t half = rope.rotary_dim() / 2;
  Matrix out = x;
  for (int64_t r = 0; r < x.rows; ++r) {
    for (int64_t head = 0; head < x.cols; head += rope.head_dim()) {
      for (int64_t i = 0; i < half; ++i) {
        const int64_t first = head + rope.offset() + (rope.interleaved() ? 2 * i : i);
        const int64_t second = rope.interleaved() ? first + 1 : first + half;
        const double c = table.at(r, i), s = table.at(r, half + i);
        const double u = x.at(r, first), v = x.at(r, second);
        out.at(r, first) = static_cast<float>(u * c - v * s);
        out.at(r, second) = static_cast<float>(v * c + u * s);
      }
    }
  }
  return {std::move(out)};
}

namespace {

// One query head at one row: softmax over the positions that it sees.
void attend(const Args& a, int64_t row, int64_t head, Matrix& out) {
  const program::AttentionAttrs& spec = a.attributes.attention();
  const Matrix &q = a.inputs[0], &k = a.inputs[1], &v = a.inputs[2];
  const int64_t dim = spec.head_dim(), v_dim = bind_attributes(a.attributes).v_dim;
  const int64_t v_stride = spec.values_in_keys() ? dim : v_dim;
  const int64_t kv_head = spec.kv_head_of(static_cast<int>(head));
  int64_t first = spec.window() > 0 ? std::max<int64_t>(0, row - spec.window() + 1) : 0;
  if (spec.chunk() > 0) first = std::max(first, row / spec.chunk() * spec.chunk());
  const int64_t last = std::max(row, a.prefix_rows - 1);
  std::vector<double> scores;
  for (int64_t s = first; s <= last; ++s) {
    double score = 0;
    for (int64_t i = 0; i < dim; ++i) {
      score += double{q.at(row, head * dim + i)} * k.at(s, kv_head * dim + i);
    }
    score *= spec.scale();
    scores.push_back(spec.cap() == 0 ? score : spec.cap() * std::tanh(score / spec.cap()));
    if (spec.slopes_size() > 0) {
      scores.back() += double{spec.slopes(static_cast<int>(head))} * static_cast<double>(s - row);
    }
  }
  if (!a.parameters.empty()) scores.push_back(a.parameters[0]->at(0, head));
  const double most = *std::max_element(scores.begin(), scores.end());
  double total = 0;
  for (double& score : scores) total += score = std::exp(score - most);
  for (int64_t i = 0; i < v_dim; ++i) {
    double sum = 0;
    for (int64_t s = first; s <= last; ++s) {
      sum += scores[static_cast<size_t>(s - first)] * v.at(s, kv_head * v_stride + i);
    }
    out.at(row, head * v_dim + i) = static_cast<float>(sum / total);
  }
}

}  // namespace

Matrices attention(const Args& a) {
  const OperatorAttrs attrs = bind_attributes(a.attributes);
  Matrix out(a.inputs[0].rows, attrs.heads * attrs.v_dim);
  for (int64_t row = 0; row < out.rows; ++row) {
    for (int64_t head = 0; head < a.attributes.attention().heads(); ++head) {
      attend(a, row, head, out);
    }
  }
  return {std::move(out)};
}

Matrices rope_attention(const Args& a) {
  const program::AttentionAttrs& spec = a.attributes.attention();
  program::Attributes turn;
  turn.mutable_rope()->set_head_dim(spec.head_dim());
  turn.mutable_rope()->set_rotary_dim(spec.rotary_dim());
  turn.mutable_rope()->set_interleaved(spec.interleaved());
  turn.mutable_rope()->set_offset(spec.offset());
  std::vector<Matrix> turned;
  for (int i = 0; i < 2; ++i) {
    const Matrix inputs[] = {a.inputs[i], a.inputs[3]};
    turned.push_back(
        rope({inputs, {}, turn, a.tokens, a.output_rows, a.rope_length, a.prefix_rows}).front());
  }
  turned.push_back(a.inputs[2]);
  return attention({turned, a.parameters, a.attributes, a.tokens, a.output_rows, a.rope_length,
                    a.prefix_rows, a.held_position});
}

}  // namespace lockstep::naive
