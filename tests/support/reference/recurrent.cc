// SPDX-License-Identifier: Apache-2.0
// Operators that keep data of every sequence in a state block.
#include <cmath>
#include <vector>

#include "tests/support/reference/reference.h"

namespace lockstep::reference {
namespace {

// Columns [begin, begin + count) of a row, scaled to `length`.
std::vector<double> to_length(const TensorView& x, int64_t row, int64_t begin, int64_t count,
                              double length, double eps) {
  std::vector<double> result(static_cast<size_t>(count));
  double squares = eps;
  for (int64_t i = 0; i < count; ++i) squares += std::pow(double{element(x, row, begin + i)}, 2);
  for (int64_t i = 0; i < count; ++i) {
    result[static_cast<size_t>(i)] = element(x, row, begin + i) * length / std::sqrt(squares);
  }
  return result;
}

void conv_sequence(const KernelArgs& args, const StepSequence& sequence) {
  const TensorView &x = args.in[0], &weight = args.in[1], &bias = args.in[2];
  const int64_t taps = args.attrs.conv().taps, first = sequence.first_row;
  float* block = args.state.block(sequence.slot);  // [taps - 1][columns]
  for (int64_t c = 0; c < x.cols; ++c) {
    // The sequence's row `r`, relative to the first row of this step.
    const auto at = [&](int64_t r) {
      if (r >= 0) return element(x, first + r, c);
      return sequence.first_position == 0 ? 0.0f : block[(taps - 1 + r) * x.cols + c];
    };
    for (int64_t r = 0; r < sequence.rows; ++r) {
      double sum = bias.data == nullptr ? 0 : element(bias, 0, c);
      for (int64_t j = 0; j < taps; ++j) {
        sum += double{element(weight, 0, c * taps + j)} * at(r - taps + 1 + j);
      }
      set_element(args.out[0], first + r, c, static_cast<float>(sum));
    }
    std::vector<float> last;
    for (int64_t j = 0; j < taps - 1; ++j) last.push_back(at(sequence.rows - taps + 1 + j));
    for (int64_t j = 0; j < taps - 1; ++j) block[j * x.cols + c] = last[static_cast<size_t>(j)];
  }
}

void delta_rule_head(const KernelArgs& args, const StepSequence& sequence, int64_t head) {
  const RecurrenceAttrs& attrs = args.attrs.recurrence();
  const int64_t k_dim = attrs.k_dim, v_dim = attrs.v_dim;
  const int64_t keys = attrs.key_head_of[head] * k_dim, values = head * v_dim;
  float* s = args.state.block(sequence.slot) + head * k_dim * v_dim;
  for (int64_t i = 0; sequence.first_position == 0 && i < k_dim * v_dim; ++i) s[i] = 0;
  for (int64_t r = sequence.first_row; r < sequence.first_row + sequence.rows; ++r) {
    const auto q = to_length(args.in[0], r, keys, k_dim, attrs.scale, attrs.eps);
    const auto k = to_length(args.in[1], r, keys, k_dim, 1, attrs.eps);
    const double decay = element(args.in[3], r, head), rate = element(args.in[4], r, head);
    for (int64_t j = 0; j < v_dim; ++j) {
      double known = 0, sum = 0;
      for (int64_t i = 0; i < k_dim; ++i)
        known += k[static_cast<size_t>(i)] * decay * s[i * v_dim + j];
      const double change = rate * (element(args.in[2], r, values + j) - known);
      for (int64_t i = 0; i < k_dim; ++i) {
        const double now = s[i * v_dim + j] * decay + k[static_cast<size_t>(i)] * change;
        s[i * v_dim + j] = static_cast<float>(now);
        sum += q[static_cast<size_t>(i)] * now;
      }
      set_element(args.out[0], r, values + j, static_cast<float>(sum));
    }
  }
}

void recurrence_head(const KernelArgs& args, const StepSequence& sequence, int64_t head) {
  const RecurrenceAttrs& attrs = args.attrs.recurrence();
  const int64_t k_dim = attrs.k_dim, v_dim = attrs.v_dim;
  const int64_t keys = attrs.key_head_of[head] * k_dim, own = head * k_dim;
  const bool changes = args.in[4].data != nullptr, by_head = args.in[3].cols == attrs.heads;
  float* s = args.state.block(sequence.slot) + head * k_dim * v_dim;
  for (int64_t i = 0; sequence.first_position == 0 && i < k_dim * v_dim; ++i) s[i] = 0;
  for (int64_t r = sequence.first_row; r < sequence.first_row + sequence.rows; ++r) {
    for (int64_t j = 0; j < v_dim; ++j) {
      const double value = element(args.in[2], r, head * v_dim + j);
      double known = 0, sum = 0;
      for (int64_t i = 0; changes && i < k_dim; ++i) {
        known += double{element(args.in[4], r, own + i)} * s[i * v_dim + j];
      }
      for (int64_t i = 0; i < k_dim; ++i) {
        const double old = s[i * v_dim + j];
        double now = old * element(args.in[3], r, by_head ? head : own + i);
        if (changes) now += element(args.in[5], r, own + i) * known;
        now += element(args.in[1], r, keys + i) * value;
        s[i * v_dim + j] = static_cast<float>(now);
        sum += element(args.in[0], r, keys + i) * (attrs.out_before ? old : now);
      }
      set_element(args.out[0], r, head * v_dim + j, static_cast<float>(sum));
    }
  }
}

// Stores the sums themselves, because keys in tests are small. The kernels store the sums divided
// by e^scale.
void wkv_column(const KernelArgs& args, const StepSequence& sequence, int64_t c) {
  const int64_t cols = args.in[0].cols;
  float* block = args.state.block(sequence.slot) + c;
  const double decay = std::exp(-std::exp(double{element(args.in[2], 0, c)}));
  const double first = element(args.in[3], 0, c);
  double above = 0, below = 0;
  if (sequence.first_position > 0) {
    above = block[0] * std::exp(double{block[2 * cols]});
    below = block[cols] * std::exp(double{block[2 * cols]});
  }
  for (int64_t r = sequence.first_row; r < sequence.first_row + sequence.rows; ++r) {
    const double k = element(args.in[0], r, c), v = element(args.in[1], r, c);
    const double own = std::exp(k + first);
    set_element(args.out[0], r, c, static_cast<float>((above + own * v) / (below + own)));
    above = above * decay + std::exp(k) * v;
    below = below * decay + std::exp(k);
  }
  block[0] = static_cast<float>(above);
  block[cols] = static_cast<float>(below);
  block[2 * cols] = 0;
}

}  // namespace

const char* conv(const KernelArgs& args) {
  for (int64_t i = 0; i < args.step->sequence_count; ++i) {
    conv_sequence(args, args.step->sequences[i]);
  }
  return nullptr;
}

const char* delta_rule(const KernelArgs& args) {
  for (int64_t i = 0; i < args.step->sequence_count; ++i) {
    for (int64_t head = 0; head < args.attrs.recurrence().heads; ++head) {
      delta_rule_head(args, args.step->sequences[i], head);
    }
  }
  return nullptr;
}

const char* recurrence(const KernelArgs& args) {
  for (int64_t i = 0; i < args.step->sequence_count; ++i) {
    for (int64_t head = 0; head < args.attrs.recurrence().heads; ++head) {
      recurrence_head(args, args.step->sequences[i], head);
    }
  }
  return nullptr;
}

const char* shift(const KernelArgs& args) {
  const TensorView& x = args.in[0];
  for (int64_t i = 0; i < args.step->sequence_count; ++i) {
    const StepSequence& sequence = args.step->sequences[i];
    float* block = args.state.block(sequence.slot);
    for (int64_t c = 0; c < x.cols; ++c) {
      float before = sequence.first_position == 0 ? 0 : block[c];
      for (int64_t r = sequence.first_row; r < sequence.first_row + sequence.rows; ++r) {
        set_element(args.out[0], r, c, before);
        before = element(x, r, c);
      }
      block[c] = before;
    }
  }
  return nullptr;
}

const char* wkv(const KernelArgs& args) {
  for (int64_t i = 0; i < args.step->sequence_count; ++i) {
    for (int64_t c = 0; c < args.in[0].cols; ++c) wkv_column(args, args.step->sequences[i], c);
  }
  return nullptr;
}

}  // namespace lockstep::reference
