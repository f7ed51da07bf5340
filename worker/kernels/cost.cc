// SPDX-License-Identifier: Apache-2.0
// The minimum numbers of bytes and operations that a kernel needs.
#include <algorithm>

#include "operators/schema/schema.h"
#include "worker/kernels/find.h"

namespace lockstep {
namespace {

int64_t view_bytes(const TensorView& view) { return view.rows * row_bytes(view.dtype, view.cols); }

int64_t operand_bytes(const KernelArgs& args) {
  int64_t bytes = 0;
  for (const TensorView& view : args.in) bytes += view_bytes(view);
  for (const TensorView& view : args.out) bytes += view_bytes(view);
  return bytes;
}

// The keys that the step's queries see, summed over rows, and the keys that must be read at least
// once, summed over sequences.
struct KeyCounts {
  int64_t seen = 0;
  int64_t read = 0;
};

KeyCounts count_keys(const KernelArgs& args) {
  const AttentionAttrs& attrs = args.attrs.attention();
  KeyCounts keys;
  if (args.step == nullptr) return keys;
  for (int64_t i = 0; i < args.step->sequence_count; ++i) {
    const StepSequence& sequence = args.step->sequences[i];
    for (int64_t r = 0; r < sequence.rows; ++r) {
      const int64_t position = sequence.first_position + r;
      keys.seen += sequence.last_seen(position) + 1 - first_seen(attrs, position);
    }
    keys.read +=
        sequence.first_position + sequence.rows - first_seen(attrs, sequence.first_position);
  }
  return keys;
}

KernelCost attention_cost(const KernelEntry& kernel, const KernelArgs& args) {
  const AttentionAttrs& attrs = args.attrs.attention();
  const KeyCounts keys = count_keys(args);
  const int64_t scale_bytes = kernel.weight == DType::kI8 ? 4 : 0;
  const int64_t key_bytes = attrs.head_dim * dtype_bytes(kernel.weight) + scale_bytes;
  const int64_t value_bytes = attrs.v_dim * dtype_bytes(kernel.weight) + scale_bytes;
  const int64_t pair_bytes = key_bytes + (attrs.values_in_keys ? 0 : value_bytes);
  const int64_t unread = (attrs.read_only ? view_bytes(args.in[1]) : 0) +
                         (attrs.read_only || attrs.values_in_keys ? view_bytes(args.in[2]) : 0);
  return {.bytes = operand_bytes(args) - unread + keys.read * attrs.kv_heads * pair_bytes,
          .flops = 2 * keys.seen * attrs.heads * (attrs.head_dim + attrs.v_dim)};
}

// Counts the rows that are looked up, not the whole weight.
KernelCost embed_cost(const KernelEntry& kernel, const KernelArgs& args) {
  const TensorView& out = args.out[0];
  return {.bytes = kernel.packed_bytes(out.rows, out.cols) + view_bytes(out), .flops = 0};
}

// Counts the packed weight: whole panels, with scales.
KernelCost linear_cost(const KernelEntry& kernel, const KernelArgs& args) {
  const TensorView &x = args.in[0], &bias = args.in[2], &out = args.out[0];
  return {.bytes = view_bytes(x) + kernel.packed_bytes(out.cols, x.cols) + view_bytes(bias) +
                   view_bytes(out),
          .flops = 2 * x.rows * x.cols * out.cols};
}

// The cost of the linear, plus that of the function on half of its columns.
KernelCost gated_linear_cost(const KernelEntry& kernel, const KernelArgs& args) {
  const TensorView &x = args.in[0], &out = args.out[0];
  return {.bytes = view_bytes(x) + kernel.packed_bytes(2 * out.cols, x.cols) +
                   view_bytes(args.in[2]) + view_bytes(out),
          .flops = (4 * x.cols + schema_of(Op::kGated).flops_per_element) * x.rows * out.cols};
}

// The number of experts that the routes name; if ids are on a device, the largest possible number.
int64_t expert_count(const KernelArgs& args) {
  const TensorView& ids = args.in[1];
  const int64_t experts = args.attrs.expert().experts, max = std::min(experts, ids.rows);
  if (args.queue != nullptr || ids.data == nullptr) return max;
  bool named[kMaxExperts] = {};
  int64_t count = 0;
  for (int64_t r = 0; r < ids.rows; ++r) {
    const int32_t id = *ids.row<int32_t>(r);
    if (id < 0 || id >= experts || named[id]) continue;
    named[id] = true;
    ++count;
  }
  return count;
}

// The matrices of the chosen experts, each counted like a linear's.
KernelCost expert_linear_cost(const KernelEntry& kernel, const KernelArgs& args) {
  const TensorView &x = args.in[0], &out = args.out[0];
  const int64_t matrix = kernel.packed_bytes(out.cols, x.cols);
  const int64_t bias = args.in[3].data == nullptr ? 0 : out.cols * dtype_bytes(args.in[3].dtype);
  return {.bytes = view_bytes(x) + view_bytes(args.in[1]) + view_bytes(out) +
                   expert_count(args) * (matrix + bias),
          .flops = 2 * out.rows * x.cols * out.cols};
}

// Each sequence's block is written. It is also read, unless the sequence begins in this step.
int64_t moved_block_bytes(const KernelArgs& args) {
  if (args.step == nullptr) return 0;
  int64_t moves = args.step->sequence_count;
  for (int64_t i = 0; i < args.step->sequence_count; ++i) {
    moves += args.step->sequences[i].first_position > 0 ? 1 : 0;
  }
  return moves * args.state.page_bytes;
}

KernelCost conv_cost(const KernelArgs& args) {
  const TensorView& x = args.in[0];
  return {.bytes = operand_bytes(args) + moved_block_bytes(args),
          .flops = 2 * args.attrs.conv().taps * x.rows * x.cols};
}

// The state S is scaled, multiplied by k, changed, and multiplied by q.
KernelCost delta_rule_cost(const KernelArgs& args) {
  const RecurrenceAttrs& attrs = args.attrs.recurrence();
  return {.bytes = operand_bytes(args) + moved_block_bytes(args),
          .flops = 7 * args.in[0].rows * attrs.heads * attrs.k_dim * attrs.v_dim};
}

// The state S decays, k * v is added, and S is multiplied by q. With operands a and b, S is also
// multiplied by a, and the product times b is added.
KernelCost recurrence_cost(const KernelArgs& args) {
  const RecurrenceAttrs& attrs = args.attrs.recurrence();
  const int64_t each = args.in[4].data == nullptr ? 5 : 9;
  return {.bytes = operand_bytes(args) + moved_block_bytes(args),
          .flops = each * args.in[0].rows * attrs.heads * attrs.k_dim * attrs.v_dim};
}

KernelCost head_linear_cost(const KernelArgs& args) {
  return {.bytes = operand_bytes(args),
          .flops = 2 * args.in[0].rows * args.attrs.heads().in_dim * args.out[0].cols};
}

}  // namespace

int64_t scratch_bytes(const KernelEntry& kernel, const KernelArgs& largest, int threads) {
  return kernel.scratch_bytes == nullptr ? 0 : kernel.scratch_bytes(largest, threads);
}

KernelCost kernel_cost(const KernelEntry& kernel, const KernelArgs& args) {
  const TensorView &x = args.in[0], &out = args.out[0];
  const int64_t elements = x.rows * x.cols;
  switch (kernel.op) {
    case Op::kEmbed:
      return embed_cost(kernel, args);
    case Op::kLinear:
      return linear_cost(kernel, args);
    case Op::kGatedLinear:
      return gated_linear_cost(kernel, args);
    case Op::kExpertLinear:
      return expert_linear_cost(kernel, args);
    case Op::kAttention:
    case Op::kRopeAttention:
      return attention_cost(kernel, args);
    case Op::kConv:
      return conv_cost(args);
    case Op::kDeltaRule:
      return delta_rule_cost(args);
    case Op::kRecurrence:
      return recurrence_cost(args);
    case Op::kShift:
      return {.bytes = operand_bytes(args) + moved_block_bytes(args), .flops = 0};
    case Op::kWkv:
      return {.bytes = operand_bytes(args) + moved_block_bytes(args),
              .flops = schema_of(kernel.op).flops_per_element * elements};
    case Op::kHeadLinear:
      return head_linear_cost(args);
    case Op::kSelectRows:
      return {.bytes = 2 * view_bytes(out), .flops = 0};
    default:
      return {.bytes = operand_bytes(args),
              .flops = schema_of(kernel.op).flops_per_element * elements};
  }
}

}  // namespace lockstep
