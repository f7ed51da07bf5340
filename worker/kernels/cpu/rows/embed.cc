// SPDX-License-Identifier: Apache-2.0
// out[r] = weight[token of r - vocab_begin], or weight[position of r + offset], where weight is
// plain rows. For tokens of other ranks, out[r] is -0.0, so that the sum over ranks is the row bit
// for bit. For token -1, the rank that has id 0 takes the next row of step->embeddings; but if
// `beside` is set, token -1 counts as the token absent_id. Quantized rows (laid out as in
// quantized_rows.h) become code * scale, or fma(code, scale, minimum).
#include "worker/kernels/cpu/chunks.h"
#include "worker/kernels/cpu/vector/vec.h"
#include "worker/kernels/kernel.h"
#include "worker/kernels/quantized_rows.h"

namespace lockstep::LOCKSTEP_ISA {
namespace {

template <typename T>
void copy_row(const T* from, float* to, int64_t cols) {
  for (int64_t i = 0; i < cols; i += Vec::kLanes) {
    Vec::load(from + i, cols - i).store(to + i, cols - i);
  }
}

// The number of rows before `row` that have an embedding of the request in place of a token.
int64_t embeddings_before(const StepView& step, int64_t row) {
  int64_t count = 0;
  for (int64_t r = 0; r < row; ++r) count += step.tokens[r] == -1;
  return count;
}

// Calls copy(row of the weight, to) for the rows that are looked up.
template <typename Copy>
const char* embed(const KernelArgs& args, const Copy& copy) {
  const TensorView &weight = args.in[0], &out = args.out[0];
  const StepView& step = *args.step;
  const EmbedAttrs& attrs = args.attrs.embed();
  const bool first = attrs.vocab_begin == 0 && weight.rows > 0;
  for_rows(*args.parallel, out.rows, out.cols, [&](int64_t r) {
    int64_t token = attrs.by_position ? step.positions[r] + attrs.offset : step.tokens[r];
    if (attrs.beside && token == -1) token = attrs.absent_id;
    const int64_t local = token - attrs.vocab_begin;
    float* to = out.row<float>(r);
    if (token == -1 && first && step.embeddings != nullptr) {
      copy_row(step.embeddings + embeddings_before(step, r) * out.cols, to, out.cols);
    } else if (token != -1 && local >= 0 && local < weight.rows) {
      copy(local, to);
    } else {
      for (int64_t i = 0; i < out.cols; ++i) to[i] = -0.0f;
    }
  });
  return nullptr;
}

template <typename Weight>
const char* embed_floats(const KernelArgs& args) {
  embed(args, [&](int64_t row, float* to) {
    copy_row(static_cast<const Weight*>(args.in[0].row<Weight>(row)), to, args.out[0].cols);
  });
  return nullptr;
}

float bf16_at(const std::byte* numbers, int64_t index) {
  uint16_t bits;
  __builtin_memcpy(&bits, numbers + 2 * index, sizeof(bits));
  return __builtin_bit_cast(float, static_cast<uint32_t>(bits) << 16);
}

// Code i of a row.
template <DType kWeight>
float code_at(const std::byte* codes, int64_t i) {
  constexpr Quantization kKind = *quantization(kWeight);
  if constexpr (kKind.bits == 8) return static_cast<float>(static_cast<int8_t>(codes[i]));
  const int nibble = static_cast<int>(codes[i / 2]) >> (i % 2 * 4) & 0x0f;
  return static_cast<float>(nibble - (kKind.minimum ? 0 : 8));
}

template <DType kWeight>
void copy_codes(const std::byte* row, float* to, int64_t cols) {
  constexpr Quantization kKind = *quantization(kWeight);
  const std::byte* codes = row + row_codes_begin(kKind, cols);
  const int64_t groups = group_count(kKind, cols), group = kKind.group == 0 ? cols : kKind.group;
  for (int64_t g = 0; g < groups; ++g) {
    const int64_t end = (g + 1) * group < cols ? (g + 1) * group : cols;
    const Vec scale = Vec::splat(bf16_at(row, g));
    for (int64_t i = g * group; i < end; i += Vec::kLanes) {
      float part[Vec::kLanes] = {};
      const int64_t n = end - i < Vec::kLanes ? end - i : Vec::kLanes;
      for (int64_t j = 0; j < n; ++j) part[j] = code_at<kWeight>(codes, i + j);
      const Vec code = Vec::load(part);
      if constexpr (kKind.minimum) {
        fma(code, scale, Vec::splat(bf16_at(row, groups + g))).store(to + i, n);
      } else {
        (code * scale).store(to + i, n);
      }
    }
  }
}

}  // namespace

const char* embed_f32(const KernelArgs& args) { return embed_floats<float>(args); }
const char* embed_f16(const KernelArgs& args) { return embed_floats<Half>(args); }
const char* embed_bf16(const KernelArgs& args) { return embed_floats<uint16_t>(args); }

template <DType kWeight>
const char* embed_quantized(const KernelArgs& args) {
  const int64_t cols = args.out[0].cols;
  const int64_t bytes = quantized_row_bytes(*quantization(kWeight), cols);
  const auto* rows = static_cast<const std::byte*>(args.in[0].data);
  return embed(args,
               [&](int64_t row, float* to) { copy_codes<kWeight>(rows + row * bytes, to, cols); });
}

#define LOCKSTEP_EMBED_QUANTIZED(KIND) \
  template const char* embed_quantized<DType::KIND>(const KernelArgs& args);
LOCKSTEP_EACH_QUANTIZED(LOCKSTEP_EMBED_QUANTIZED)
#undef LOCKSTEP_EMBED_QUANTIZED

}  // namespace lockstep::LOCKSTEP_ISA
