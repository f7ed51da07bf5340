// SPDX-License-Identifier: Apache-2.0
// Operators that compute every row separately.
#include <algorithm>
#include <cmath>

#include "tests/support/reference/reference.h"

namespace lockstep::reference {
namespace {

// The element of a weight or bias for column i of x. The weight has all columns of x, or only those
// from `begin` on. Without a weight: `otherwise`.
double of_column(const TensorView& weight, const TensorView& x, int64_t begin, int64_t i,
                 double otherwise) {
  if (weight.data == nullptr) return otherwise;
  return element(weight, 0, weight.cols == x.cols ? i : i - begin);
}

// Normalizes columns [begin, begin + count) of row r.
void norm(const TensorView& x, const TensorView& weight, const TensorView& out, int64_t r,
          int64_t begin, int64_t count, float eps) {
  double squares = 0;
  for (int64_t i = begin; i < begin + count; ++i) {
    squares += std::pow(static_cast<double>(element(x, r, i)), 2);
  }
  const double rms = std::sqrt(squares / static_cast<double>(count) + eps);
  for (int64_t i = begin; i < begin + count; ++i) {
    const double y = element(x, r, i) / rms * of_column(weight, x, begin, i, 1);
    set_element(out, r, i, static_cast<float>(y));
  }
}

// The same for a norm that also subtracts the mean and may have a bias.
void centred_norm(const TensorView& x, const TensorView& weight, const TensorView& bias,
                  const TensorView& out, int64_t r, int64_t begin, int64_t width, float eps) {
  const auto count = static_cast<double>(width);
  double mean = 0, variance = 0;
  for (int64_t i = begin; i < begin + width; ++i) mean += element(x, r, i) / count;
  for (int64_t i = begin; i < begin + width; ++i) {
    variance += std::pow(element(x, r, i) - mean, 2) / count;
  }
  for (int64_t i = begin; i < begin + width; ++i) {
    const double y = (element(x, r, i) - mean) / std::sqrt(variance + eps);
    const double added = of_column(bias, x, begin, i, 0);
    set_element(out, r, i, static_cast<float>(y * of_column(weight, x, begin, i, 1) + added));
  }
}

// Applies f to the elements of the first input and of the second, if there is one.
template <typename F>
const char* by_element(const KernelArgs& args, const F& f) {
  const TensorView &x = args.in[0], &y = args.in[1];
  fill(args.out[0], [&](int64_t r, int64_t c) {
    return f(double{element(x, r, c)}, y.data == nullptr ? 0 : double{element(y, r, c)});
  });
  return nullptr;
}

double function_of(const MapAttrs& attrs, double x) {
  const double factor = attrs.factor;
  switch (attrs.function) {
    case Function::kNone:
      break;
    case Function::kSilu:
      return x / (1 + std::exp(-x));
    case Function::kGelu:
      return x / 2 * (1 + std::erf(x / std::sqrt(2.0)));
    case Function::kGeluTanh:
      return x / 2 * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
    case Function::kRelu:
      return std::max(x, 0.0);
    case Function::kReluSquared:
      return std::pow(std::max(x, 0.0), 2);
    case Function::kSigmoid:
      return 1 / (1 + std::exp(-x));
    case Function::kTanh:
      return std::tanh(x);
    case Function::kScale:
      return x * factor;
    case Function::kCap:
      return factor * std::tanh(x / factor);
    case Function::kQuickGelu:
      return x / (1 + std::exp(-double{kQuickGeluSlope} * x));
    case Function::kClamp:
      return std::clamp(x, -factor, factor);
    case Function::kClampAbove:
      return x > factor ? factor : x;
    case Function::kSoftplus:
      return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)));
    case Function::kExp:
      return std::exp(x);
  }
  return x;
}

// A sequence's set of frequencies: the first one that covers its length.
const float* inv_freq(const RopeTableAttrs& attrs, const StepSequence& sequence) {
  const int64_t* set =
      std::lower_bound(attrs.lengths.begin(), attrs.lengths.end(), sequence.rope_length);
  return attrs.inv_freq.data + (set - attrs.lengths.begin()) * (rotary_dim_of(attrs) / 2);
}

int64_t row_position(const RopeTableAttrs& attrs, const StepSequence& sequence, int64_t position) {
  const bool in_prefix = position < sequence.prefix_rows;
  if (attrs.position_row == PositionRow::kHeld && !in_prefix) return sequence.held_position;
  if (attrs.position_row != PositionRow::kBlock) return position;
  return in_prefix ? 0 : position - sequence.prefix_rows + 1;
}

// The frequency of pair i at a position.
float frequency(const RopeTableAttrs& attrs, const StepSequence& sequence, int64_t i,
                int64_t position) {
  if (attrs.dynamic_length == 0) return inv_freq(attrs, sequence)[i];
  const auto original = static_cast<double>(attrs.dynamic_length);
  const double length = std::max(static_cast<double>(position + 1), original);
  const double dim = static_cast<double>(rotary_dim_of(attrs)), factor = attrs.dynamic_factor;
  const double stretch = factor * length / original - (factor - 1);
  const double base = attrs.theta * std::pow(stretch, dim / (dim - 2));
  return static_cast<float>(1 / std::pow(base, 2 * static_cast<double>(i) / dim));
}

float position_scale_of(const PositionScaleAttrs& attrs, int64_t position) {
  if (attrs.log_factor == 0) {
    const int64_t index = (position + attrs.offset) / attrs.length;
    return attrs.scales[std::min(index, attrs.scales.size - 1)];
  }
  if (position < attrs.length) return 1;
  return static_cast<float>(std::log(static_cast<double>(position + 1)) * attrs.log_factor);
}

}  // namespace

const char* rms_norm(const KernelArgs& args) {
  for (int64_t r = 0; r < args.in[0].rows; ++r) {
    norm(args.in[0], args.in[1], args.out[0], r, 0, args.in[0].cols, args.attrs.norm().eps);
  }
  return nullptr;
}

const char* layer_norm(const KernelArgs& args) {
  for (int64_t r = 0; r < args.in[0].rows; ++r) {
    centred_norm(args.in[0], args.in[1], args.in[2], args.out[0], r, 0, args.in[0].cols,
                 args.attrs.norm().eps);
  }
  return nullptr;
}

const char* head_norm(const KernelArgs& args) {
  const int64_t dim = args.attrs.norm().head_dim;
  for (int64_t r = 0; r < args.in[0].rows; ++r) {
    for (int64_t begin = 0; begin < args.in[0].cols; begin += dim) {
      if (args.attrs.norm().centred) {
        centred_norm(args.in[0], args.in[1], args.in[2], args.out[0], r, begin, dim,
                     args.attrs.norm().eps);
      } else {
        norm(args.in[0], args.in[1], args.out[0], r, begin, dim, args.attrs.norm().eps);
      }
    }
  }
  return nullptr;
}

const char* map(const KernelArgs& args) {
  return by_element(args, [&](double x, double) { return function_of(args.attrs.map(), x); });
}
const char* mul(const KernelArgs& args) {
  return by_element(args, [](double x, double y) { return x * y; });
}
const char* add(const KernelArgs& args) {
  return by_element(args, [](double x, double y) { return x + y; });
}
// The result is that of map followed by mul.
const char* gated(const KernelArgs& args) {
  return by_element(args, [&](double gate, double up) {
    return double{static_cast<float>(function_of(args.attrs.map(), gate))} * up;
  });
}
const char* decay(const KernelArgs& args) {
  fill(args.out[0], [&](int64_t r, int64_t c) {
    return std::exp(-std::exp(double{element(args.in[1], 0, c)}) * element(args.in[0], r, c));
  });
  return nullptr;
}
const char* lerp(const KernelArgs& args) {
  fill(args.out[0], [&](int64_t r, int64_t c) {
    const double x = element(args.in[0], r, c), y = element(args.in[1], r, c);
    return x + (y - x) * element(args.in[2], r, c);
  });
  return nullptr;
}
const char* broadcast(const KernelArgs& args) {
  fill(args.out[0], [&](int64_t, int64_t c) { return element(args.in[0], 0, c); });
  return nullptr;
}
const char* cast(const KernelArgs& args) {
  return by_element(args, [](double x, double) { return x; });
}

const char* add_norm(const KernelArgs& args) {
  add(args);
  for (int64_t r = 0; r < args.in[0].rows; ++r) {
    norm(args.out[0], args.in[2], args.out[1], r, 0, args.in[0].cols, args.attrs.norm().eps);
  }
  return nullptr;
}

const char* embed(const KernelArgs& args) {
  const TensorView &weight = args.in[0], &out = args.out[0];
  const EmbedAttrs& attrs = args.attrs.embed();
  const float* embedding = args.step->embeddings;
  for (int64_t r = 0; r < out.rows; ++r) {
    int64_t token =
        attrs.by_position ? args.step->positions[r] + attrs.offset : args.step->tokens[r];
    if (attrs.beside && token == -1) token = attrs.absent_id;
    const int64_t local = token - attrs.vocab_begin;
    for (int64_t i = 0; i < out.cols; ++i) {
      float value = -0.0f;
      if (token == -1) {
        if (attrs.vocab_begin == 0 && weight.rows > 0) value = embedding[i];
      } else if (0 <= local && local < weight.rows) {
        value = element(weight, local, i);
      }
      set_element(out, r, i, value);
    }
    if (token == -1) embedding += out.cols;
  }
  return nullptr;
}

const char* position_scale(const KernelArgs& args) {
  fill(args.out[0], [&](int64_t r, int64_t c) {
    return element(args.in[0], r, c) *
           position_scale_of(args.attrs.position_scale(), args.step->positions[r]);
  });
  return nullptr;
}

const char* select_rows(const KernelArgs& args) {
  fill(args.out[0],
       [&](int64_t r, int64_t c) { return element(args.in[0], args.step->output_rows[r], c); });
  return nullptr;
}

const char* rope_table(const KernelArgs& args) {
  const RopeTableAttrs& attrs = args.attrs.rope_table();
  const int64_t half = rotary_dim_of(attrs) / 2;
  for (int64_t r = 0; r < args.out[0].rows; ++r) {
    const StepSequence& sequence = args.step->sequences[args.step->sequence_of_row[r]];
    const int64_t position = row_position(attrs, sequence, args.step->positions[r]);
    for (int64_t i = 0; i < half; ++i) {
      const float angle = frequency(attrs, sequence, i, position) * static_cast<float>(position);
      const double factor = attrs.factor;
      set_element(args.out[0], r, i, static_cast<float>(std::cos(double{angle}) * factor));
      set_element(args.out[0], r, half + i, static_cast<float>(std::sin(double{angle}) * factor));
    }
  }
  return nullptr;
}

const char* rope(const KernelArgs& args) {
  const TensorView &x = args.in[0], &table = args.in[1], &out = args.out[0];
  const RopeAttrs& attrs = args.attrs.rope();
  const int64_t rotary = attrs.rotary_dim, half = rotary / 2;
  for (int64_t r = 0; r < x.rows; ++r) {
    for (int64_t head = 0; head < x.cols; head += attrs.head_dim) {
      for (int64_t i = 0; i < half; ++i) {
        const int64_t first = head + attrs.offset + (attrs.interleaved ? 2 * i : i);
        const int64_t second = first + (attrs.interleaved ? 1 : half);
        const double a = element(x, r, first), b = element(x, r, second);
        const double cos = element(table, r, i), sin = element(table, r, half + i);
        set_element(out, r, first, static_cast<float>(a * cos - b * sin));
        set_element(out, r, second, static_cast<float>(b * cos + a * sin));
      }
      for (int64_t i = 0; i < attrs.head_dim; ++i) {
        const bool is_rotated = attrs.offset <= i && i < attrs.offset + rotary;
        if (!is_rotated) set_element(out, r, head + i, element(x, r, head + i));
      }
    }
  }
  return nullptr;
}

}  // namespace lockstep::reference
