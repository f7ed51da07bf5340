// SPDX-License-Identifier: Apache-2.0
// One function per operator, in the order of operators/op.h in the table at the end.
#include "tests/support/naive_operators.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/check.h"
#include "base/numbers/float16.h"
#include "tests/support/naive_kernels.h"

namespace lockstep::naive {
namespace {

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
    case program::QUICK_GELU:
      return x / (1 + std::exp(-double{1.702f} * x));
    case program::CLAMP:
      return std::min(std::max(x, -factor), factor);
    case program::CLAMP_ABOVE:
      return std::min(x, factor);
    case program::SOFTPLUS:
      return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)));
    case program::EXP:
      return std::exp(x);
    default:
      LOCKSTEP_CHECK(false);
  }
}

Matrices embed(const Args& a) {
  const Matrix& weight = *a.parameters[0];
  const int64_t begin = a.attributes.embed().vocab_begin();
  Matrix out(static_cast<int64_t>(a.tokens.size()), weight.cols);
  const program::EmbedAttrs& spec = a.attributes.embed();
  for (int64_t r = 0; r < out.rows; ++r) {
    const int64_t token = spec.beside() && a.tokens[r] == -1 ? spec.absent_id() : a.tokens[r];
    const int64_t row = spec.by_position() ? r + spec.offset() : token - begin;
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

// Of column `begin + i` of x, in a weight that has the columns of a run, or of all.
double factor_of(const Matrix& weight, const Matrix& x, int64_t begin, int64_t i) {
  return weight.at(0, i + (weight.cols == x.cols ? begin : 0));
}

// Each run of `width` columns divided by its root mean square; `weight` may be null.
Matrix normalised(const Matrix& x, const Matrix* weight, int64_t width, float eps) {
  Matrix out(x.rows, x.cols);
  for (int64_t r = 0; r < x.rows; ++r) {
    for (int64_t begin = 0; begin < x.cols; begin += width) {
      double squares = 0;
      for (int64_t i = 0; i < width; ++i) squares += std::pow(double{x.at(r, begin + i)}, 2);
      const double scale = 1 / std::sqrt(squares / static_cast<double>(width) + double{eps});
      for (int64_t i = 0; i < width; ++i) {
        const double factor = weight == nullptr ? 1 : factor_of(*weight, x, begin, i);
        out.at(r, begin + i) = static_cast<float>(x.at(r, begin + i) * scale * factor);
      }
    }
  }
  return out;
}

// (x - mean) / sqrt(variance + eps) * weight (+ bias) of each run of `width` columns; weight and
// bias as above.
Matrix centred(const Args& a, int64_t width) {
  const Matrix &x = a.inputs[0], &weight = *a.parameters[0];
  const auto count = static_cast<double>(width);
  Matrix out(x.rows, x.cols);
  for (int64_t r = 0; r < x.rows; ++r) {
    for (int64_t begin = 0; begin < x.cols; begin += width) {
      const int64_t end = begin + width, first = weight.cols == x.cols ? 0 : begin;
      double mean = 0, variance = 0;
      for (int64_t c = begin; c < end; ++c) mean += x.at(r, c);
      mean /= count;
      for (int64_t c = begin; c < end; ++c) variance += std::pow(x.at(r, c) - mean, 2);
      const double scale = 1 / std::sqrt(variance / count + a.attributes.norm().eps());
      for (int64_t c = begin; c < end; ++c) {
        const double bias = a.parameters.size() > 1 ? a.parameters[1]->at(0, c - first) : 0;
        out.at(r, c) =
            static_cast<float>((x.at(r, c) - mean) * scale * weight.at(0, c - first) + bias);
      }
    }
  }
  return out;
}

Matrices rms_norm(const Args& a) {
  const Matrix& x = a.inputs[0];
  return {normalised(x, a.parameters[0], x.cols, a.attributes.norm().eps())};
}

Matrices head_norm(const Args& a) {
  const program::NormAttrs& norm = a.attributes.norm();
  if (norm.centred()) return {centred(a, norm.head_dim())};
  const Matrix* weight = a.parameters.empty() ? nullptr : a.parameters[0];
  return {normalised(a.inputs[0], weight, norm.head_dim(), norm.eps())};
}

Matrices layer_norm(const Args& a) { return {centred(a, a.inputs[0].cols)}; }

Matrices position_scale(const Args& a) {
  const program::PositionScaleAttrs& attrs = a.attributes.position_scale();
  Matrix out = a.inputs[0];
  for (int64_t r = 0; r < out.rows; ++r) {
    double scale = 1;
    if (attrs.log_factor() == 0) {
      const int64_t index =
          std::min<int64_t>((r + attrs.offset()) / attrs.length(), attrs.scales_size() - 1);
      scale = attrs.scales(static_cast<int>(index));
    } else if (r >= attrs.length()) {
      scale = std::log(static_cast<double>(r + 1)) * attrs.log_factor();
    }
    for (int64_t c = 0; c < out.cols; ++c) {
      out.at(r, c) = static_cast<float>(out.at(r, c) * scale);
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

Matrices gated_linear(const Args& a) {
  const Matrix pairs = std::move(linear(a).front());
  std::vector<Matrix> halves(2, Matrix(pairs.rows, pairs.cols / 2));
  for (int64_t r = 0; r < pairs.rows; ++r) {
    for (int64_t c = 0; c < pairs.cols; ++c) halves[c % 2].at(r, c / 2) = pairs.at(r, c);
  }
  return gated({halves, {}, a.attributes, a.tokens, a.output_rows});
}

Matrices lerp(const Args& a) {
  Matrix out = a.inputs[0];
  for (size_t i = 0; i < out.data.size(); ++i) {
    out.data[i] += (a.inputs[1].data[i] - out.data[i]) * a.inputs[2].data[i];
  }
  return {std::move(out)};
}

Matrices broadcast(const Args& a) {
  const Matrix& weight = *a.parameters[0];
  Matrix out(static_cast<int64_t>(a.tokens.size()), weight.cols);
  for (int64_t r = 0; r < out.rows; ++r) {
    for (int64_t c = 0; c < out.cols; ++c) out.at(r, c) = weight.at(0, c);
  }
  return {std::move(out)};
}

Matrices add_norm(const Args& a) {
  Matrix sum = add(a)[0];
  Matrix norm = normalised(sum, a.parameters[0], sum.cols, a.attributes.norm().eps());
  return {std::move(sum), std::move(norm)};
}

Matrices cast(const Args& a) {
  return map_two(a, [](float x, float) { return bf16_to_float(float_to_bf16(x)); });
}

// The interpreter rounds no rows, as its linears do not.
Matrices round_groups(const Args& a) { return {a.inputs[0]}; }

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
    {Op::kPositionScale, position_scale},
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
    {Op::kConv, conv},
    {Op::kDeltaRule, delta_rule},
    {Op::kDecay, decay},
    {Op::kHeadLinear, head_linear},
    {Op::kJoinHeads, join_heads},
    {Op::kBroadcast, broadcast},
    {Op::kShift, shift},
    {Op::kLerp, lerp},
    {Op::kRecurrence, recurrence},
    {Op::kHeadDot, head_dot},
    {Op::kWkv, wkv},
    {Op::kExpandHeads, expand_heads},
    {Op::kRoundGroups, round_groups},
    {Op::kRopeAttention, rope_attention},
    {Op::kGatedLinear, gated_linear},
    {Op::kExpertScale, expert_scale},
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
