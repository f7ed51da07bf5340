// SPDX-License-Identifier: Apache-2.0
// out[r] = weight[token of r - vocab_begin], weight being plain rows; -0.0 for tokens that other
// ranks hold, so that the sum over ranks is the row bit for bit. Token -1 takes the next row of
// step->embeddings, on the rank that holds id 0.
#include "worker/kernels/cpu/chunks.h"
#include "worker/kernels/cpu/vec.h"
#include "worker/kernels/kernel.h"

namespace lockstep::LOCKSTEP_ISA {
namespace {

template <typename T>
void copy_row(const T* from, float* to, int64_t cols) {
  for (int64_t i = 0; i < cols; i += Vec::kLanes) {
    Vec::load(from + i, cols - i).store(to + i, cols - i);
  }
}

// How many rows before this one brought an embedding of their own.
int64_t embeddings_before(const StepView& step, int64_t row) {
  int64_t count = 0;
  for (int64_t r = 0; r < row; ++r) count += step.tokens[r] == -1;
  return count;
}

template <typename Weight>
void embed(const KernelArgs& args) {
  const TensorView &weight = args.in[0], &out = args.out[0];
  const StepView& step = *args.step;
  const int64_t vocab_begin = args.attrs.vocab_begin;
  const bool first = vocab_begin == 0 && weight.rows > 0;
  for_rows(*args.parallel, out.rows, out.cols, [&](int64_t r) {
    const int64_t token = step.tokens[r], local = token - vocab_begin;
    float* to = out.row<float>(r);
    if (token == -1 && first && step.embeddings != nullptr) {
      copy_row(step.embeddings + embeddings_before(step, r) * out.cols, to, out.cols);
    } else if (token != -1 && local >= 0 && local < weight.rows) {
      copy_row(static_cast<const Weight*>(weight.row<Weight>(local)), to, out.cols);
    } else {
      for (int64_t i = 0; i < out.cols; ++i) to[i] = -0.0f;
    }
  });
}

}  // namespace

void embed_f32(const KernelArgs& args) { embed<float>(args); }
void embed_bf16(const KernelArgs& args) { embed<uint16_t>(args); }

}  // namespace lockstep::LOCKSTEP_ISA
