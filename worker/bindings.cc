// SPDX-License-Identifier: Apache-2.0
// Look-up in the table of kernels for every instruction of a program.
#include "worker/bindings.h"

#include "base/numeric_class.h"
#include "base/status.h"
#include "worker/kernels/find.h"

namespace lockstep {
namespace {

using program::Instruction;
using program::Program;

bool has_kernel(Op op) {
  return op != Op::kAllReduce && op != Op::kAllGather && op != Op::kColumns;
}

// The type of the KV pages for attention, else that of the first weight which is a matrix.
DType weight_dtype(const Program& program, const Instruction& instruction) {
  if (instruction.op() == program::ATTENTION) {
    return dtype_of(program.states(instruction.attributes().attention().state()).dtype());
  }
  for (const program::Operand& operand : instruction.inputs()) {
    if (operand.kind_case() != program::Operand::kWeight) continue;
    const program::Weight& weight = program.weights(operand.weight());
    if (weight.role() != program::NORM && weight.role() != program::BIAS) {
      return dtype_of(weight.dtype());
    }
  }
  return DType::kNone;
}

DType activation_dtype(const Program& program, const Instruction& instruction) {
  if (instruction.inputs_size() == 0) return DType::kNone;
  const program::Operand& first = instruction.inputs(0);
  return first.kind_case() == program::Operand::kValue
             ? dtype_of(program.values(first.value()).dtype())
             : DType::kNone;
}

absl::Status note_weights(const Program& program, const Instruction& instruction,
                          const KernelEntry* kernel, Bindings& bindings) {
  for (const program::Operand& operand : instruction.inputs()) {
    if (operand.kind_case() != program::Operand::kWeight) continue;
    const int index = operand.weight();
    const program::Weight& weight = program.weights(index);
    const bool plain = weight.role() == program::NORM || weight.role() == program::BIAS;
    const KernelEntry* packer = plain ? nullptr : kernel;
    const KernelEntry* before = bindings.packers[index];
    if (bindings.used[index] && packer != nullptr && before->pack != packer->pack) {
      return failed_precondition(
          "weight {}: {} and {} want it in different layouts; the program "
          "must name it twice",
          weight.name(), before->name, packer->name);
    }
    bindings.used[index] = true;
    bindings.packers[index] = packer;
  }
  return absl::OkStatus();
}

absl::StatusOr<const KernelEntry*> kernel_of(const Program& program, int index,
                                             const Backend& backend) {
  const Instruction& instruction = program.instructions(index);
  const Op op = op_of(instruction);
  const DType weight = weight_dtype(program, instruction);
  const DType activation = activation_dtype(program, instruction);
  const KernelEntry* kernel = find_kernel(backend.kernels, op, weight, activation, backend.isa);
  if (kernel != nullptr && kernel->own_bits && program.numeric_class() == kCpuClass) {
    const auto below = static_cast<Isa>(static_cast<int>(kernel->isa) - 1);
    kernel = find_kernel(backend.kernels, op, weight, activation, below);
  }
  if (kernel == nullptr) {
    return failed_precondition(
        "instruction {}: this worker has no kernel {} for weights in {} and activations in {}; "
        "run the same version everywhere, or another --dtype or --quantize",
        index, op_name(op), dtype_name(weight), dtype_name(activation));
  }
  const KernelAttrs attrs = attributes_of(instruction);
  if (kernel->fits == nullptr) return kernel;
  if (const char* wanted = kernel->fits(attrs, *backend.device); wanted != nullptr) {
    return failed_precondition(
        "instruction {}: kernel {} wants {}, found head_dim {} and v_dim {}; use another --device",
        index, kernel->name, wanted, attrs.head_dim, attrs.v_dim);
  }
  return kernel;
}

}  // namespace

absl::StatusOr<Bindings> bind(const Program& program, const Backend& backend) {
  Bindings bindings;
  bindings.packers.resize(program.weights_size());
  bindings.used.resize(program.weights_size());
  bindings.states.resize(program.states_size());
  for (int i = 0; i < program.instructions_size(); ++i) {
    const Instruction& instruction = program.instructions(i);
    bindings.kernels.push_back(nullptr);
    if (!has_kernel(op_of(instruction))) continue;
    ASSIGN_OR_RETURN(const KernelEntry* kernel, kernel_of(program, i, backend));
    bindings.kernels.back() = kernel;
    if (instruction.op() == program::ATTENTION) {
      bindings.states[instruction.attributes().attention().state()] = kernel;
    }
    RETURN_IF_ERROR(note_weights(program, instruction, kernel, bindings));
  }
  return bindings;
}

KernelAttrs attributes_of(const Instruction& instruction) {
  const program::Attributes& from = instruction.attributes();
  KernelAttrs attrs;
  attrs.eps = from.norm().eps();
  attrs.head_dim = from.norm().head_dim();
  if (from.has_embed()) attrs.vocab_begin = from.embed().vocab_begin();
  if (from.has_top_candidates()) attrs.vocab_begin = from.top_candidates().vocab_begin();
  if (from.has_rope()) {
    attrs.head_dim = from.rope().head_dim();
    attrs.rotary_dim = from.rope().rotary_dim();
    attrs.interleaved = from.rope().interleaved();
  }
  if (from.has_rope_table()) {
    const program::RopeTableAttrs& table = from.rope_table();
    attrs.rotary_dim = 2 * int64_t{table.inv_freq_size()};
    attrs.inv_freq = table.inv_freq().data();
    attrs.rope_factor = table.factor();
    attrs.dynamic_length = table.dynamic_length();
    attrs.dynamic_factor = table.dynamic_factor();
    attrs.rope_theta = table.theta();
  }
  if (from.has_attention()) {
    const program::AttentionAttrs& attention = from.attention();
    attrs.head_dim = attrs.v_dim = attention.head_dim();
    attrs.heads = attention.heads();
    attrs.kv_heads = attention.kv_heads();
    attrs.kv_head_of = attention.kv_head_of().data();
    attrs.scale = attention.scale();
    attrs.window = attention.window();
  }
  return attrs;
}

}  // namespace lockstep
