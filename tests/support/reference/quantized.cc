// SPDX-License-Identifier: Apache-2.0
// Quantized weights, and linear with such weights, which rounds its float32 input rows to int8
// codes in the weight's groups.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/numbers/float16.h"
#include "tests/support/reference/reference.h"

namespace lockstep::reference {
namespace {

// For int4 weights the scales of x are powers of two. These are the min and max exponents.
constexpr int kMinPower = -60, kMaxPower = 62;

const QuantizedRows& quantized(const TensorView& view) {
  return *static_cast<const QuantizedRows*>(view.data);
}

// A row of x as codes, and a scale for each of the weight's groups.
struct RoundedRow {
  std::vector<double> codes;
  std::vector<double> scales;
  bool valid = true;
};

// False if the group cannot be rounded: an element is not finite, or too large.
bool choose_scale(const Quantization& kind, float largest, float& scale, float& inverse) {
  scale = inverse = 0;
  if (!std::isfinite(largest)) return false;
  if (kind.bits == 8) {
    if (largest < 0x1p-100f) return true;
    scale = largest / 127.0f;
    inverse = 127.0f / largest;
    return true;
  }
  int power = kMinPower;
  while (std::ldexp(127.0, power) < largest) ++power;
  scale = static_cast<float>(std::ldexp(1.0, power));
  inverse = static_cast<float>(std::ldexp(1.0, -power));
  return power <= kMaxPower;
}

// Reads a row that round_groups has rounded.
RoundedRow rounded_row(const TensorView& x, int64_t r) {
  RoundedRow row;
  for (int64_t k = 0; k < x.cols; ++k) {
    const RoundedGroup& group = x.rounded_row(r)[k / kRoundedGroup];
    if (k % kRoundedGroup == 0) row.scales.push_back(group.scale);
    row.codes.push_back(group.codes[k % kRoundedGroup]);
    row.valid = !std::isnan(group.scale) && row.valid;
  }
  return row;
}

RoundedRow round_row(const Quantization& kind, const TensorView& x, int64_t r) {
  if (is_rounded(x.dtype)) return rounded_row(x, r);
  RoundedRow row;
  const int64_t group = kind.group == 0 ? std::max<int64_t>(1, x.cols) : kind.group;
  for (int64_t begin = 0; begin < x.cols; begin += group) {
    const int64_t end = std::min(x.cols, begin + group);
    float largest = 0, scale = 0, inverse = 0;
    for (int64_t k = begin; k < end; ++k) {
      const float size = std::abs(element(x, r, k));
      largest = std::isnan(size) ? std::numeric_limits<float>::infinity() : std::max(largest, size);
    }
    row.valid = choose_scale(kind, largest, scale, inverse) && row.valid;
    row.scales.push_back(scale);
    for (int64_t k = begin; k < end; ++k) {
      const float code = row.valid ? element(x, r, k) * inverse : 0.0f;
      row.codes.push_back(std::nearbyint(code));
    }
  }
  return row;
}

}  // namespace

double quantized_scale(const TensorView& view, int64_t row, int64_t group) {
  const Quantization kind = *quantization(view.dtype);
  const double scale =
      bf16_to_float(quantized(view).scales[row * group_count(kind, view.cols) + group]);
  if (kind.bits == 8) return scale;
  if (std::abs(scale) < 0x1p-66) return 0;
  return std::clamp(scale, -0x1.fep65, 0x1.fep65);
}

double quantized_minimum(const TensorView& view, int64_t row, int64_t group) {
  const Quantization kind = *quantization(view.dtype);
  if (!kind.minimum) return 0;
  return bf16_to_float(quantized(view).minima[row * group_count(kind, view.cols) + group]);
}

int quantized_code(const TensorView& view, int64_t row, int64_t col) {
  return quantized(view).codes[row * view.cols + col];
}

const char* round_groups(const KernelArgs& args) {
  const TensorView &x = args.in[0], &out = args.out[0];
  const Quantization kind = {.bits = out.dtype == DType::kA8 ? 8 : 4};
  for (int64_t r = 0; r < x.rows; ++r) {
    for (int64_t begin = 0; begin < x.cols; begin += kRoundedGroup) {
      TensorView columns = x;  // The columns of one group, which round_row() gets as a whole row.
      columns.data = x.row<float>(r) + begin;
      columns.cols = std::min(x.cols - begin, kRoundedGroup);
      const RoundedRow row = round_row(kind, columns, 0);
      RoundedGroup& group = out.rounded_row(r)[begin / kRoundedGroup];
      for (int64_t k = 0; k < kRoundedGroup; ++k) {
        group.codes[k] = k < columns.cols ? static_cast<int8_t>(row.codes[k]) : int8_t{0};
      }
      group.scale =
          row.valid ? static_cast<float>(row.scales[0]) : std::numeric_limits<float>::quiet_NaN();
    }
  }
  return nullptr;
}

const char* linear_of_codes(const KernelArgs& args) {
  const TensorView &x = args.in[0], &weight = args.in[1], &bias = args.in[2];
  const Quantization kind = *quantization(weight.dtype);
  const int64_t group = kind.group == 0 ? std::max<int64_t>(1, x.cols) : kind.group;
  std::vector<RoundedRow> rows;
  for (int64_t r = 0; r < x.rows; ++r) rows.push_back(round_row(kind, x, r));
  fill(args.out[0], [&](int64_t r, int64_t n) {
    const RoundedRow& row = rows[r];
    double sum = row.valid ? 0 : std::numeric_limits<double>::quiet_NaN();
    for (int64_t g = 0; g < group_count(kind, x.cols); ++g) {
      double dot = 0, codes = 0;
      for (int64_t k = g * group; k < std::min(x.cols, (g + 1) * group); ++k) {
        dot += quantized_code(weight, n, k) * row.codes[k];
        codes += row.codes[k];
      }
      sum += row.scales[g] *
             (quantized_scale(weight, n, g) * dot + quantized_minimum(weight, n, g) * codes);
    }
    return bias.data == nullptr ? sum : sum + element(bias, 0, n);
  });
  return nullptr;
}

}  // namespace lockstep::reference
