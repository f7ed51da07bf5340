// SPDX-License-Identifier: Apache-2.0
// One function an operator, in the order of operators/op.h in the table at the end.
#include "tests/support/naive_operators.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/check.h"
#include "base/float16.h"
#include "proto/attributes.h"

namespace lockstep::naive {
namespace {

using Args = OperatorArgs;
using Matrices = std::vector<Matrix>;

template <typename Function>
Matrices map_two(const Args& a, Function function) {
  Matrix out = a.inputs[0];
  const Matrix& y = a.inputs.back();
  LOCKSTEP_CHECK(y.data.size() == out.data.size());
  for (size_t i = 0; i < out.data.size(); ++i) out.data[i] = function(out.data[i], y.data[i]);
  return {std::move(out)};
}

double function_of(const program::Attributes& attributes, double x) {
  const double factor = attributes.map().factor();
  const auto positive = x > 0 ? x : 0;
  switch (attributes.map().function()) {
    case program::SILU:
      return x / (1 + std::exp(-x));
    case program::GELU:
      return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
    case program::GELU_TANH:
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * std::pow(x, 3))));
    case program::RELU:
      return positive;
    case program::RELU_SQUARED:
      return positive * positive;
    case program::SIGMOID:
      return 1 / (1 + std::exp(-x));
    case program::TANH:
      return std::tanh(x);
    case program::SCALE:
      return x * factor;
    case program::CAP:
      return factor * std::tanh(x / factor);
    default:
      LOCKSTEP_CHECK(false);
  }
}

Matrices embed(const Args& a) {
  const Matrix& weight = *a.parameters[0];
  const int64_t begin = a.attributes.embed().vocab_begin();
  Matrix out(static_cast<int64_t>(a.tokens.size()), weight.cols);
  for (int64_t r = 0; r < out.rows; ++r) {
    const int64_t row = a.tokens[r] - begin;
    const bool mine = 0 <= row && row < weight.rows;
    for (int64_t c = 0; c < out.cols; ++c) out.at(r, c) = mine ? weight.at(row, c) : -0.0f;
  }
  return {std::move(out)};
}

Matrices linear(const Args& a) {
  const Matrix &x = a.inputs[0], &weight = *a.parameters[0];
  Matrix out(x.rows, weight.rows);
  for (int64_t r = 0; r < x.rows; ++r) {
    for (int64_t n = 0; n < weight.rows; ++n) {
      double sum = 0;
      for (int64_t k = 0; k < x.cols; ++k) {
        sum += static_cast<double>(x.data[r * x.cols + k]) * weight.data[n * weight.cols + k];
      }
      if (a.parameters.size() > 1) sum += a.parameters[1]->data[n];
      out.at(r, n) = static_cast<float>(sum);
    }
  }
  return {std::move(out)};
}

// Each run of `width` columns divided by its root mean square.
Matrix normalised(const Matrix& x, const Matrix& weight, int64_t width, float eps) {
  Matrix out(x.rows, x.cols);
  for (int64_t r = 0; r < x.rows; ++r) {
    for (int64_t begin = 0; begin < x.cols; begin += width) {
      double squares = 0;
      for (int64_t i = 0; i < width; ++i) squares += std::pow(double{x.at(r, begin + i)}, 2);
      const double scale = 1 / std::sqrt(squares / static_cast<double>(width) + double{eps});
      for (int64_t i = 0; i < width; ++i) {
        out.at(r, begin + i) = static_cast<float>(x.at(r, begin + i) * scale * weight.data[i]);
      }
    }
  }
  return out;
}

Matrices rms_norm(const Args& a) {
  const Matrix& x = a.inputs[0];
  return {normalised(x, *a.parameters[0], x.cols, a.attributes.norm().eps())};
}

Matrices head_norm(const Args& a) {
  const program::NormAttrs& norm = a.attributes.norm();
  return {normalised(a.inputs[0], *a.parameters[0], norm.head_dim(), norm.eps())};
}

Matrices rope_table(const Args& a) {
  const program::RopeTableAttrs& table = a.attributes.rope_table();
  const int64_t half = table.inv_freq_size();
  Matrix out(static_cast<int64_t>(a.tokens.size()), 2 * half);
  for (int64_t r = 0; r < out.rows; ++r) {
    const double length = static_cast<double>(std::max(r + 1, table.dynamic_length()));
    const double stretch = double{table.dynamic_factor()} * length /
                               static_cast<double>(std::max<int64_t>(1, table.dynamic_length())) -
                           (double{table.dynamic_factor()} - 1);
    for (int64_t i = 0; i < half; ++i) {
      double frequency = table.inv_freq(static_cast<int>(i));
      if (table.dynamic_length() > 0) {
        const double d = static_cast<double>(2 * half);
        const double base = double{table.theta()} * std::pow(stretch, d / (d - 2));
        frequency = std::pow(base, -2.0 * static_cast<double>(i) / d);
      }
      const double angle = static_cast<double>(r) * frequency;
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
        const int64_t first = head + (rope.interleaved() ? 2 * i : i);
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

// One query head at one row: softmax over the positions that it sees.
void attend(const Args& a, int64_t row, int64_t head, Matrix& out) {
  const program::AttentionAttrs& spec = a.attributes.attention();
  const Matrix &q = a.inputs[0], &k = a.inputs[1], &v = a.inputs[2];
  const int64_t dim = spec.head_dim(), v_dim = bind_attributes(a.attributes).v_dim;
  const int64_t kv_head = spec.kv_head_of(static_cast<int>(head));
  const int64_t first = spec.window() > 0 ? std::max<int64_t>(0, row - spec.window() + 1) : 0;
  std::vector<double> scores;
  for (int64_t s = first; s <= row; ++s) {
    double score = 0;
    for (int64_t i = 0; i < dim; ++i) {
      score += double{q.at(row, head * dim + i)} * k.at(s, kv_head * dim + i);
    }
    score *= spec.scale();
    scores.push_back(spec.cap() == 0 ? score : spec.cap() * std::tanh(score / spec.cap()));
  }
  const double most = *std::max_element(scores.begin(), scores.end());
  double total = 0;
  for (double& score : scores) total += score = std::exp(score - most);
  for (int64_t i = 0; i < v_dim; ++i) {
    double sum = 0;
    for (size_t s = 0; s < scores.size(); ++s) {
      sum += scores[s] * v.at(first + static_cast<int64_t>(s), kv_head * v_dim + i);
    }
    out.at(row, head * v_dim + i) = static_cast<float>(sum / total);
  }
}

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

Matrices map(const Args& a) {
  return map_two(
      a, [&](double x, double) { return static_cast<float>(function_of(a.attributes, x)); });
}
Matrices mul(const Args& a) {
  return map_two(a, [](float x, float y) { return x * y; });
}
Matrices add(const Args& a) {
  return map_two(a, [](float x, float y) { return x + y; });
}
Matrices gated(const Args& a) {
  return map_two(
      a, [&](float x, float y) { return static_cast<float>(function_of(a.attributes, x)) * y; });
}

Matrices add_norm(const Args& a) {
  Matrix sum = add(a)[0];
  Matrix norm = normalised(sum, *a.parameters[0], sum.cols, a.attributes.norm().eps());
  return {std::move(sum), std::move(norm)};
}

Matrices cast(const Args& a) {
  return map_two(a, [](float x, float) { return bf16_to_float(float_to_bf16(x)); });
}

Matrices select_rows(const Args& a) {
  const Matrix& x = a.inputs[0];
  Matrix out(static_cast<int64_t>(a.output_rows.size()), x.cols);
  for (int64_t r = 0; r < out.rows; ++r) {
    for (int64_t c = 0; c < x.cols; ++c) out.at(r, c) = x.at(a.output_rows[r], c);
  }
  return {std::move(out)};
}

Matrices columns(const Args& a) {
  const program::ColumnsAttrs& view = a.attributes.columns();
  Matrix out(a.inputs[0].rows, view.end() - view.begin());
  for (int64_t r = 0; r < out.rows; ++r) {
    for (int64_t c = 0; c < out.cols; ++c) out.at(r, c) = a.inputs[0].at(r, view.begin() + c);
  }
  return {std::move(out)};
}

// y = (x - mean) / sqrt(variance + eps) * weight (+ bias).
Matrices layer_norm(const Args& a) {
  const Matrix& x = a.inputs[0];
  Matrix out(x.rows, x.cols);
  for (int64_t r = 0; r < x.rows; ++r) {
    double mean = 0, variance = 0;
    for (int64_t c = 0; c < x.cols; ++c) mean += x.at(r, c);
    mean /= static_cast<double>(x.cols);
    for (int64_t c = 0; c < x.cols; ++c) variance += (x.at(r, c) - mean) * (x.at(r, c) - mean);
    variance /= static_cast<double>(x.cols);
    const double scale = 1 / std::sqrt(variance + a.attributes.norm().eps());
    for (int64_t c = 0; c < x.cols; ++c) {
      const double bias = a.parameters.size() > 1 ? a.parameters[1]->at(0, c) : 0;
      out.at(r, c) =
          static_cast<float>((x.at(r, c) - mean) * scale * a.parameters[0]->at(0, c) + bias);
    }
  }
  return {std::move(out)};
}

// Of one row, by repeated search: the expert that is best of those left, then the next.
std::vector<size_t> chosen_of(const std::vector<double>& keys, std::vector<bool> open,
                              int64_t wanted) {
  std::vector<size_t> chosen;
  for (int64_t n = 0; n < wanted; ++n) {
    size_t best = keys.size();
    for (size_t i = 0; i < keys.size(); ++i) {
      if (open[i] && (best == keys.size() || keys[i] > keys[best])) best = i;
    }
    LOCKSTEP_CHECK(best < keys.size());
    open[best] = false;
    chosen.push_back(best);
  }
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

std::vector<bool> open_experts(const program::RouteAttrs& route, const std::vector<double>& keys) {
  const size_t groups = static_cast<size_t>(route.groups()), each = keys.size() / groups;
  std::vector<double> of_groups;
  for (size_t g = 0; g < groups; ++g) {
    std::vector<double> own(keys.begin() + static_cast<int64_t>(g * each),
                            keys.begin() + static_cast<int64_t>((g + 1) * each));
    std::sort(own.rbegin(), own.rend());
    of_groups.push_back(route.best_two() ? own[0] + own[1] : own[0]);
  }
  std::vector<bool> open(keys.size());
  for (const size_t g :
       chosen_of(of_groups, std::vector<bool>(groups, true), route.chosen_groups())) {
    for (size_t i = 0; i < each; ++i) open[g * each + i] = true;
  }
  return open;
}

void softmax(std::vector<double>& x) {
  double sum = 0;
  for (double& value : x) sum += value = std::exp(value);
  for (double& value : x) value /= sum;
}

Matrices route(const Args& a) {
  const program::RouteAttrs& spec = a.attributes.route();
  const Matrix& x = a.inputs[0];
  Matrix ids(x.rows * spec.chosen(), 1), weights(x.rows * spec.chosen(), 1);
  for (int64_t r = 0; r < x.rows; ++r) {
    std::vector<double> scores(x.data.begin() + r * x.cols, x.data.begin() + (r + 1) * x.cols);
    if (!spec.sigmoid() && !spec.softmax_of_chosen()) softmax(scores);
    for (double& score : scores) score = spec.sigmoid() ? 1 / (1 + std::exp(-score)) : score;
    std::vector<double> keys = scores, kept;
    for (size_t i = 0; i < keys.size(); ++i) {
      if (!a.parameters.empty()) keys[i] += a.parameters[0]->data[i];
    }
    const auto chosen = chosen_of(keys, open_experts(spec, keys), spec.chosen());
    for (const size_t expert : chosen) kept.push_back(scores[expert]);
    if (spec.softmax_of_chosen()) softmax(kept);
    double sum = 0;
    for (const double weight : kept) sum += weight;
    for (size_t n = 0; n < chosen.size(); ++n) {
      const int64_t at = r * spec.chosen() + static_cast<int64_t>(n);
      ids.at(at, 0) = static_cast<float>(chosen[n]);
      weights.at(at, 0) =
          static_cast<float>(kept[n] * spec.scale() / (spec.renormalised() ? sum : 1));
    }
  }
  return {std::move(ids), std::move(weights)};
}

// Ids are floats here, as all values.
Matrices expert_linear(const Args& a) {
  const Matrix &x = a.inputs[0], &ids = a.inputs[1], &weight = *a.parameters[0];
  const int64_t experts = a.attributes.expert().experts(), cols = weight.rows / experts;
  Matrix out(ids.rows, cols);
  for (int64_t r = 0; r < out.rows; ++r) {
    const int64_t row = r / (out.rows / x.rows), top = static_cast<int64_t>(ids.at(r, 0)) * cols;
    for (int64_t n = 0; n < cols; ++n) {
      double sum = a.parameters.size() > 1 ? a.parameters[1]->data[top + n] : 0;
      for (int64_t k = 0; k < x.cols; ++k) sum += double{x.at(row, k)} * weight.at(top + n, k);
      out.at(r, n) = static_cast<float>(sum);
    }
  }
  return {std::move(out)};
}

Matrices combine(const Args& a) {
  const Matrix &x = a.inputs[0], &weights = a.inputs[1];
  Matrix out(static_cast<int64_t>(a.tokens.size()), x.cols);
  const int64_t each = x.rows / out.rows;
  for (int64_t route = 0; route < x.rows; ++route) {
    for (int64_t c = 0; c < x.cols; ++c) {
      out.at(route / each, c) += weights.at(route, 0) * x.at(route, c);
    }
  }
  return {std::move(out)};
}

struct Row {
  Op op = Op::kNone;
  Matrices (*run)(const Args&) = nullptr;  // Null: the interpreter's own affair.
};

constexpr auto kOperators = table_by_op<Row>({
    {Op::kEmbed, embed},
    {Op::kLinear, linear},
    {Op::kRmsNorm, rms_norm},
    {Op::kLayerNorm, layer_norm},
    {Op::kHeadNorm, head_norm},
    {Op::kRopeTable, rope_table},
    {Op::kRope, rope},
    {Op::kAttention, attention},
    {Op::kMap, map},
    {Op::kMul, mul},
    {Op::kAdd, add},
    {Op::kGated, gated},
    {Op::kAddNorm, add_norm},
    {Op::kCast, cast},
    {Op::kSelectRows, select_rows},
    {Op::kTopCandidates},
    {Op::kAllReduce},
    {Op::kAllGather},
    {Op::kColumns, columns},
    {Op::kRoute, route},
    {Op::kExpertLinear, expert_linear},
    {Op::kCombine, combine},
});
#define LOCKSTEP_OP(number, constant, message, word)   \
  static_assert(kOperators[number].op == Op::constant, \
                #word " has no row in tests/support/naive_operators.cc");
#include "operators/ops.inc"

}  // namespace

std::vector<Matrix> run_operator(Op op, const OperatorArgs& args) {
  const Row& row = kOperators[static_cast<size_t>(op)];
  LOCKSTEP_CHECK(row.run != nullptr);
  return row.run(args);
}

}  // namespace lockstep::naive
