// SPDX-License-Identifier: Apache-2.0
// out[r] = weight[token of r - vocab_begin], where weight is plain rows. For tokens of other ranks,
// out[r] is -0.0, so that the sum over ranks is the row bit for bit. For token -1, the rank that
// has id 0 takes the next row of step->embeddings; but if `beside` is set, token -1 counts as the
// token absent_id.
#include "worker/kernels/cuda/linear/matrix.h"

namespace lockstep::LOCKSTEP_TARGET {
namespace {

// The number of rows before `row` that have an embedding of the request in place of a token.
__device__ int64_t embeddings_before(const StepView& step, int64_t row) {
  int64_t count = 0;
  for (int64_t r = 0; r < row; ++r) count += step.tokens[r] == -1;
  return count;
}

template <typename Matrix>
__global__ void embed_kernel(Matrix matrix, TensorView out, StepView step, EmbedAttrs attrs) {
  const TensorView& weight = matrix.view;
  const int64_t row = blockIdx.x, stride = int64_t{gridDim.y} * blockDim.x;
  int64_t token = attrs.by_position ? step.positions[row] + attrs.offset : step.tokens[row];
  if (attrs.beside && token == -1) token = attrs.absent_id;
  const int64_t vocab_begin = attrs.vocab_begin, local = token - vocab_begin;
  bool held = false;
  const float* given = nullptr;
  if (token == -1) {
    if (vocab_begin == 0 && weight.rows > 0 && step.embeddings != nullptr) {
      given = step.embeddings + embeddings_before(step, row) * out.cols;
    }
  } else if (local >= 0 && local < weight.rows) {
    held = true;
  }
  for (int64_t i = int64_t{blockIdx.y} * blockDim.x + threadIdx.x; i < out.cols; i += stride) {
    set_element(out, row, i, given != nullptr ? given[i] : held ? matrix.at(local, i) : -0.0f);
  }
}

template <typename Matrix>
const char* embed(const KernelArgs& args) {
  const TensorView& out = args.out[0];
  return launch(embed_kernel<Matrix>, row_grid(out.rows, out.cols), kRowThreads, args.queue,
                Matrix{args.in[0]}, out, *args.step, args.attrs.embed());
}

}  // namespace

const char* embed_f32(const KernelArgs& args) { return embed<Numbers<float>>(args); }
const char* embed_bf16(const KernelArgs& args) { return embed<Numbers<BF16>>(args); }
const char* embed_f16(const KernelArgs& args) { return embed<Numbers<F16>>(args); }

template <DType kWeight>
const char* embed_codes(const KernelArgs& args) {
  return embed<Codes<kWeight>>(args);
}

#define LOCKSTEP_EMBED_CODES(KIND) \
  template const char* embed_codes<DType::KIND>(const KernelArgs& args);
LOCKSTEP_EACH_QUANTIZED(LOCKSTEP_EMBED_CODES)
#undef LOCKSTEP_EMBED_CODES

}  // namespace lockstep::LOCKSTEP_TARGET
