// SPDX-License-Identifier: Apache-2.0
// Softmax over all keys that a query sees, in one go.
#include <algorithm>
#include <cmath>
#include <vector>

#include "worker/kernels/reference/reference.h"

namespace lockstep::reference {
namespace {

// Key (part 0) or value (part 1) of a position and KV head, as a row of head_dim.
TensorView slot(const KernelArgs& args, const StepSequence& sequence, int64_t position,
                int64_t kv_head, int64_t part) {
  const StateView& state = args.state;
  const int64_t page = sequence.pages[position / state.page_tokens];
  const int64_t row = position % state.page_tokens * args.attrs.kv_heads + kv_head;
  const int64_t offset = (row * 2 + part) * args.attrs.head_dim * dtype_bytes(state.dtype);
  return {state.data + page * state.page_bytes + offset, 1, args.attrs.head_dim,
          args.attrs.head_dim, state.dtype};
}

void attend(const KernelArgs& args, int64_t row, int64_t head) {
  const KernelAttrs& attrs = args.attrs;
  const StepSequence& sequence = args.step->sequences[args.step->sequence_of_row[row]];
  const int64_t position = args.step->positions[row], kv_head = attrs.kv_head_of[head];
  const int64_t first = attrs.window > 0 ? std::max<int64_t>(0, position - attrs.window + 1) : 0;
  std::vector<double> scores;
  for (int64_t j = first; j <= position; ++j) {
    const TensorView key = slot(args, sequence, j, kv_head, 0);
    double dot = 0;
    for (int64_t d = 0; d < attrs.head_dim; ++d) {
      dot += static_cast<double>(element(args.in[0], row, head * attrs.head_dim + d)) *
             element(key, 0, d);
    }
    scores.push_back(dot * attrs.scale);
  }
  const double highest = *std::max_element(scores.begin(), scores.end());
  double total = 0;
  for (double& score : scores) total += score = std::exp(score - highest);
  for (int64_t d = 0; d < attrs.head_dim; ++d) {
    double sum = 0;
    for (int64_t j = first; j <= position; ++j) {
      sum += scores[static_cast<size_t>(j - first)] *
             element(slot(args, sequence, j, kv_head, 1), 0, d);
    }
    set_element(args.out[0], row, head * attrs.head_dim + d, static_cast<float>(sum / total));
  }
}

}  // namespace

void attention(const KernelArgs& args) {
  const KernelAttrs& attrs = args.attrs;
  for (int64_t row = 0; row < args.step->rows; ++row) {
    const StepSequence& sequence = args.step->sequences[args.step->sequence_of_row[row]];
    for (int64_t kv_head = 0; kv_head < attrs.kv_heads; ++kv_head) {
      for (int64_t part = 0; part < 2; ++part) {
        const TensorView to = slot(args, sequence, args.step->positions[row], kv_head, part);
        for (int64_t d = 0; d < attrs.head_dim; ++d) {
          set_element(to, 0, d, element(args.in[1 + part], row, kv_head * attrs.head_dim + d));
        }
      }
    }
  }
  for (int64_t row = 0; row < args.step->rows; ++row) {
    for (int64_t head = 0; head < attrs.heads; ++head) attend(args, row, head);
  }
}

}  // namespace lockstep::reference
