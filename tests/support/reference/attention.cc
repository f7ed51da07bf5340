// SPDX-License-Identifier: Apache-2.0
// Softmax over all keys that a query sees, at once. Keys and values are rounded to the type of the
// pages. Queries are rounded to bfloat16 if the pages are bfloat16, and to codes of 16 bits if the
// pages are int8.
#include <algorithm>
#include <cmath>
#include <vector>

#include "base/numbers/float16.h"
#include "tests/support/reference/reference.h"

namespace lockstep::reference {
namespace {

// The key (part 0) or value (part 1) of a position and KV head: a row of head_dim or v_dim and, for
// int8, its scale, which is stored after all rows of the page. If values are stored in keys, both
// use the key's scale.
struct Slot {
  TensorView row;
  float* scale;

  double at(int64_t d) const {
    const double value = element(row, 0, d);
    return row.dtype == DType::kI8 ? value * static_cast<double>(*scale) : value;
  }
};

Slot slot(const KernelArgs& args, const StepSequence& sequence, int64_t position, int64_t kv_head,
          int64_t part) {
  const StateView& state = args.state;
  const AttentionAttrs& attrs = args.attrs.attention();
  const int64_t kv_heads = attrs.kv_heads, own = attrs.values_in_keys ? 0 : part;
  const int64_t width = attrs.head_dim + (attrs.values_in_keys ? 0 : attrs.v_dim);
  const int64_t dim = part == 0 ? attrs.head_dim : attrs.v_dim;
  std::byte* page = state.data + sequence.pages[position / state.page_tokens] * state.page_bytes;
  const int64_t index = position % state.page_tokens * kv_heads + kv_head;
  const int64_t begin = index * width + own * attrs.head_dim;
  const TensorView row = {page + begin * dtype_bytes(state.dtype), 1, dim, dim, state.dtype};
  auto* const scales = reinterpret_cast<float*>(page + state.page_tokens * kv_heads * width);
  return {row, scales + index * (attrs.values_in_keys ? 1 : 2) + own};
}

// Returns the largest magnitude divided by `max`.
float scale_of(const TensorView& x, int64_t row, int64_t begin, int64_t count, float max) {
  float highest = 0;
  for (int64_t i = 0; i < count; ++i)
    highest = std::max(highest, std::abs(element(x, row, begin + i)));
  return highest / max;
}

float code_of(float x, float scale) { return scale == 0 ? 0 : std::nearbyint(x / scale); }

void append(const KernelArgs& args, int64_t row, int64_t kv_head, int64_t part) {
  const StepSequence& sequence = args.step->sequences[args.step->sequence_of_row[row]];
  const TensorView& from = args.in[1 + part];
  const Slot to = slot(args, sequence, args.step->positions[row], kv_head, part);
  const int64_t dim = to.row.cols, begin = kv_head * dim;
  const bool codes = args.state.dtype == DType::kI8;
  if (codes) *to.scale = scale_of(from, row, begin, dim, 127);
  for (int64_t d = 0; d < dim; ++d) {
    const float x = element(from, row, begin + d);
    set_element(to.row, 0, d, codes ? code_of(x, *to.scale) : x);
  }
}

// A query after rounding, as used in the products.
std::vector<double> query_of(const KernelArgs& args, int64_t row, int64_t head) {
  const int64_t dim = args.attrs.attention().head_dim, begin = head * dim;
  const float scale = scale_of(args.in[0], row, begin, dim, 32767);
  std::vector<double> query;
  for (int64_t d = 0; d < dim; ++d) {
    const float q = element(args.in[0], row, begin + d);
    query.push_back(args.state.dtype == DType::kBF16 ? double{bf16_to_float(float_to_bf16(q))}
                    : args.state.dtype == DType::kI8 ? double{code_of(q, scale)} * double{scale}
                                                     : double{q});
  }
  return query;
}

void attend(const KernelArgs& args, int64_t row, int64_t head) {
  const AttentionAttrs& attrs = args.attrs.attention();
  const StepSequence& sequence = args.step->sequences[args.step->sequence_of_row[row]];
  const int64_t position = args.step->positions[row], kv_head = attrs.kv_head_of[head];
  int64_t first = attrs.window > 0 ? std::max<int64_t>(0, position - attrs.window + 1) : 0;
  if (attrs.chunk > 0) first = std::max(first, position / attrs.chunk * attrs.chunk);
  const int64_t last = std::max(position, sequence.prefix_rows - 1);
  const std::vector<double> query = query_of(args, row, head);
  std::vector<double> scores;
  for (int64_t j = first; j <= last; ++j) {
    const Slot key = slot(args, sequence, j, kv_head, 0);
    double dot = 0;
    for (int64_t d = 0; d < attrs.head_dim; ++d) {
      dot += query[static_cast<size_t>(d)] * key.at(d);
    }
    const double score = dot * attrs.scale, cap = attrs.cap;
    scores.push_back(cap == 0 ? score : cap * std::tanh(score / cap));
    if (!attrs.slopes.empty()) {
      scores.back() += double{attrs.slopes[head]} * static_cast<double>(j - position);
    }
  }
  const bool sink = args.in[3].data != nullptr;
  if (sink) scores.push_back(element(args.in[3], 0, head));
  const double highest = *std::max_element(scores.begin(), scores.end());
  double total = 0;
  for (double& score : scores) total += score = std::exp(score - highest);
  for (int64_t d = 0; d < attrs.v_dim; ++d) {
    double sum = 0;
    for (int64_t j = first; j <= last; ++j) {
      sum += scores[static_cast<size_t>(j - first)] * slot(args, sequence, j, kv_head, 1).at(d);
    }
    set_element(args.out[0], row, head * attrs.v_dim + d, static_cast<float>(sum / total));
  }
}

}  // namespace

const char* attention(const KernelArgs& args) {
  const AttentionAttrs& attrs = args.attrs.attention();
  for (int64_t row = 0; row < args.step->rows && !attrs.read_only; ++row) {
    for (int64_t kv_head = 0; kv_head < attrs.kv_heads; ++kv_head) {
      for (int64_t part = 0; part < (attrs.values_in_keys ? 1 : 2); ++part) {
        append(args, row, kv_head, part);
      }
    }
  }
  for (int64_t row = 0; row < args.step->rows; ++row) {
    for (int64_t head = 0; head < attrs.heads; ++head) attend(args, row, head);
  }
  return nullptr;
}

const char* rope_attention(const KernelArgs& args) {
  KernelArgs attending = args;
  attending.in[3] = args.in[4];
  std::vector<float> rotated[2];
  for (int i = 0; i < 2; ++i) {
    const TensorView& x = args.in[i];
    rotated[i].resize(static_cast<size_t>(x.rows * x.cols));
    KernelArgs rotating = args;
    rotating.attrs = rope_of(args.attrs.attention());
    rotating.in[0] = x;
    rotating.in[1] = args.in[3];
    rotating.out[0] = {rotated[i].data(), x.rows, x.cols, x.cols, DType::kF32};
    kernel(Op::kRope)(rotating);
    attending.in[i] = rotating.out[0];
  }
  return attention(attending);
}

}  // namespace lockstep::reference
