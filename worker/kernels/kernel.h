// SPDX-License-Identifier: Apache-2.0
// A kernel: a function of plain views, bound once at load and called in every step. No containers
// and no inline functions that the linker keeps, so that files compiled for one ISA leak nothing
// into the others.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/numbers/dtype.h"
#include "base/numbers/quantization.h"
#include "base/system/isa.h"
#include "base/threads/parallel.h"
#include "operators/attributes.h"
#include "operators/block_sum.h"
#include "operators/limits.h"
#include "operators/op.h"

namespace lockstep {

class Device;  // device.h

// A matrix in memory: rows of `cols` elements, `stride` elements from one row to the next. If
// elements are rounded (base/numbers/quantization.h), a row is an array of RoundedGroup, and the
// stride is a multiple of kRoundedGroup.
struct TensorView {
  void* data = nullptr;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t stride = 0;
  DType dtype = DType::kNone;

  template <typename T>
  [[gnu::always_inline]] constexpr T* row(int64_t index) const {
    return static_cast<T*>(data) + index * stride;
  }
  [[gnu::always_inline]] constexpr RoundedGroup* rounded_row(int64_t index) const {
    return static_cast<RoundedGroup*>(data) + index * (stride / kRoundedGroup);
  }
};

// A float16 in memory; bfloat16 is a plain uint16_t.
struct Half {
  uint16_t bits;
};

// One layer's state on this rank. For attention: `pages` KV pages of page_bytes each, a number that
// the kernel's entry computes. Only the kernel knows the layout within a page. For other operators:
// a state block for each of `pages` slots, float32 [rows, cols] as in program.Block. At position 0
// of a sequence, the contents of its block are undefined and must be read as zeros.
struct StateView {
  std::byte* data = nullptr;
  int64_t page_bytes = 0;
  int64_t pages = 0;
  int64_t page_tokens = 0;  // Positions per page: 16, 32 or 64.
  DType dtype = DType::kNone;

  [[gnu::always_inline]] constexpr float* block(int64_t slot) const {
    return static_cast<float*>(static_cast<void*>(data + slot * page_bytes));
  }
};

// logit = logit > 0 ? logit / repetition : logit * repetition; logit += add.
struct LogitEdit {
  int32_t id;
  float repetition;
  float add;
};

// A token of this rank's slice. `logit` is the model's own. `edited` is the logit after the edits,
// divided by the temperature if that is above 0. `noisy` is `edited` plus the Gumbel noise, which
// is 0 if the temperature is 0.
struct Candidate {
  int32_t id = -1;  // -1: none.
  float logit = 0;
  float edited = 0;
  float noisy = 0;
};

// A request for answers from one row of logits, and the places for them. Ids are those of the
// whole vocabulary. Lists are in descending order of the value named in their comment; among ties
// the lowest id is first. The kernel fills *_found.
struct OutputSpec {
  float temperature = 0;  // 0: greedy.
  uint64_t seed = 0;      // Noise is keyed by (seed, position, token id).
  int64_t position = 0;
  const LogitEdit* edits = nullptr;  // Ascending ids of this rank's slice.
  int64_t edit_count = 0;
  const uint64_t* mask = nullptr;  // Bit `id` set: the id is allowed. Null: all are.

  Candidate* top = nullptr;  // The best by `edited`.
  int64_t top_count = 0;
  int64_t top_found = 0;
  Candidate* raw_top = nullptr;  // The best by `logit`, without mask and edits.
  int64_t raw_top_count = 0;
  int64_t raw_top_found = 0;
  bool want_noisy = false;  // True: fill `noisy`, the best of the slice.
  Candidate noisy;
  int32_t slices_done = 0;          // For the kernel alone: 0 before and after it.
  BlockSum* edited_sums = nullptr;  // One per block of kVocabBlock ids of this slice, or null.
  BlockSum* raw_sums = nullptr;
  float* logits = nullptr;  // The slice's raw logits, or null.
};

// The rows of one sequence in a step: consecutive rows, with consecutive positions. Its pages are
// in order, so position p is in pages[p / page_tokens].
struct StepSequence {
  int64_t first_row = 0;
  int64_t rows = 0;
  int64_t first_position = 0;
  const int32_t* pages = nullptr;
  int64_t slot = 0;         // The number of its state blocks.
  int64_t rope_length = 0;  // The rotary frequencies depend on it.
  // The first `prefix_rows` positions see one another: all their rows are in one step.
  int64_t prefix_rows = 0;
  int64_t held_position = 0;  // The position for PositionRow::kHeld after the prefix.

  // The last position that a row sees.
  [[gnu::always_inline]] constexpr int64_t last_seen(int64_t position) const {
    return position < prefix_rows ? prefix_rows - 1 : position;
  }
  [[gnu::always_inline]] constexpr int64_t position_in(PositionRow row, int64_t position) const {
    if (row == PositionRow::kOwn) return position;
    if (row == PositionRow::kHeld) return position < prefix_rows ? position : held_position;
    return position < prefix_rows ? 0 : position - prefix_rows + 1;
  }
};

struct StepView {
  int64_t rows = 0;
  const int32_t* tokens = nullptr;           // [rows]; -1: the row is in `embeddings`
  const int32_t* positions = nullptr;        // [rows]
  const int32_t* sequence_of_row = nullptr;  // [rows]
  const StepSequence* sequences = nullptr;
  int64_t sequence_count = 0;
  const int32_t* output_rows = nullptr;  // [outputs], ascending
  OutputSpec* outputs = nullptr;         // [outputs]
  int64_t output_count = 0;
  const float* embeddings = nullptr;  // [rows with token -1, hidden], in order of rows, or null
  int64_t longest = 0;                // The maximum of positions in a sequence; DeviceStep sets it.
};

// Inputs and outputs in the order of the operator's row (operators/schema/schema.cc,
// docs/operators.md); an absent optional operand has no data. A weight is [output columns, input
// columns], a norm or a bias [1, columns]; rope_table gives columns 0 .. d/2-1 cos, d/2 .. d-1 sin.
// Views may have no columns, if this rank has no part of the value: the kernel then does nothing.
// If the operator's row allows it, kernels may work in place (out[0].data == in[0].data).
struct KernelArgs {
  TensorView in[kMaxInputs];
  TensorView out[kMaxOutputs];
  OperatorAttrs attrs;
  StateView state;
  StepView* step = nullptr;
  Parallel* parallel = nullptr;
  // scratch_bytes(args of the largest step, threads) of the entry, 64-byte aligned, not cleared.
  std::byte* scratch = nullptr;
  void* queue = nullptr;  // The device's queue; null on CPU.
};

// Null, or one line of static text that says why the kernel could not run or be queued.
// Device::synchronize() reports later errors on a device.
using KernelFn = const char* (*)(const KernelArgs& args);

// Weights are laid out once at load in the order in which their kernel reads them. packed_bytes:
// the bytes of a packed matrix [rows, cols]. pack: puts rows [row_begin, row_end) of the matrix in
// their place. These rows are given as float32 [row_end - row_begin, cols] with stride
// `source_stride`, or in `quantized` if the weight's type is quantized. row_begin is a multiple of
// kPackRows; so is row_end, unless it is `rows`. Memory after the last row is zeros, as it was
// allocated.
inline constexpr int64_t kPackRows = 32;
struct PackArgs {
  const float* source = nullptr;
  int64_t source_stride = 0;
  QuantizedRows quantized;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t row_begin = 0;
  int64_t row_end = 0;
  void* packed = nullptr;
};
using PackFn = void (*)(const PackArgs& args);
using PackedBytesFn = int64_t (*)(int64_t rows, int64_t cols);

// The scratch that a call with these arguments may use, over all threads. Smaller calls need no
// more. Reads the views' shapes and types and the attributes, never `step` or data.
using ScratchBytesFn = int64_t (*)(const KernelArgs& largest, int threads);

// The data that one layer stores for `tokens` positions on a rank: for each KV head, keys of k_dim
// and values of v_dim elements; if v_dim is 0, values are the first columns of keys. On a device an
// int8 page ends with all its scales: a float32 per key, and per value if v_dim is not 0.
struct PageShape {
  int64_t tokens = 0;
  int64_t kv_heads = 0;
  int64_t k_dim = 0;
  int64_t v_dim = 0;
  DType dtype = DType::kNone;
};
using PageBytesFn = int64_t (*)(const PageShape& page);

// Null if the kernel can run on the device with these attributes, or static text that says what it
// needs: "head_dim up to 1024". Called when a program is bound; reads no tables of the attributes.
using FitsFn = const char* (*)(const OperatorAttrs& attrs, const Device& device);

// One row of a back end's table. `weight` is the type of the weight matrix, or of the KV pages for
// attention; kNone if there is neither. `activation` is the type of in[0]; kNone if the operator's
// own rule about types suffices. A linear with a quantized weight rounds float32 rows to int8
// itself, or takes rows that are already rounded.
struct KernelEntry {
  Op op = Op::kNone;
  DType weight = DType::kNone;
  DType activation = DType::kNone;
  Isa isa = Isa::kPortable;
  KernelFn run = nullptr;
  const char* name = nullptr;
  PackFn pack = nullptr;
  PackedBytesFn packed_bytes = nullptr;
  ScratchBytesFn scratch_bytes = nullptr;  // Null: none.
  PageBytesFn page_bytes = nullptr;        // For attention.
  FitsFn fits = nullptr;                   // Null: it always fits.
  bool takes_rounded = false;              // in[0] may have rounded_rows(weight), too.
  bool takes_bf16 = false;                 // in[0] may be bfloat16, too.
  bool own_bits = false;                   // The portable kernel for the same types has other bits.
};

}  // namespace lockstep
