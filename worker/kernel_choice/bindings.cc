// SPDX-License-Identifier: Apache-2.0
// Looks up the kernel of every instruction of a program.
#include "worker/kernel_choice/bindings.h"

#include "base/numbers/numeric_class.h"
#include "base/status.h"
#include "operators/attribute_fields.h"
#include "operators/schema/schema.h"
#include "proto/attributes.h"
#include "worker/kernels/find.h"

namespace lockstep {
namespace {

using program::Instruction;
using program::Program;

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
          "weight {}: {} and {} need it in different layouts; the program must name it twice",
          weight.name(), before->name, packer->name);
    }
    bindings.used[index] = true;
    bindings.packers[index] = packer;
  }
  return absl::OkStatus();
}

// Only GPU kernels round their outputs, and only if the operator's schema allows it.
absl::Status check_rounding(const Program& program, int index, const Backend& backend) {
  const Instruction& instruction = program.instructions(index);
  const OperatorSchema& schema = schema_of(op_of(instruction));
  if (!schema.may_round() || is_cuda_class(backend.numeric_class)) return absl::OkStatus();
  const program::Value& last = program.values(*instruction.outputs().rbegin());
  if (dtype_of(last.dtype()) == DType::kF32) return absl::OkStatus();
  return failed_precondition(
      "instruction {0}: the output of {1} in numeric class {2} must be float32, found {3} in the "
      "program; run the same version everywhere",
      index, op_name(schema.op), backend.numeric_class, dtype_name(dtype_of(last.dtype())));
}

// Whether a kernel has the bits that a numeric class promises.
bool serves_class(const KernelEntry& kernel, std::string_view numeric_class) {
  return !kernel.own_bits || numeric_class == kAmxClass || is_fast_class(numeric_class);
}

// The first kernel for the instruction's types.
absl::StatusOr<const KernelEntry*> first_kernel(const Program& program, int index,
                                                const Backend& backend) {
  const Instruction& instruction = program.instructions(index);
  const Op op = op_of(instruction);
  const DType weight = weight_dtype(program, instruction);
  const DType activation = activation_dtype(program, instruction);
  const auto kernels = kernels_for(program, backend, op, weight, activation);
  if (!kernels.empty()) return kernels.front();
  return failed_precondition(
      "instruction {}: this worker has no kernel {} for weights in {} and activations in {}; "
      "run the same version everywhere, or another --dtype or --quantize",
      index, op_name(op), dtype_name(weight), dtype_name(activation));
}

// Whether the kernel can run with the instruction's attributes.
absl::Status check_fit(const KernelEntry& kernel, const Instruction& instruction, int index,
                       const Backend& backend) {
  if (kernel.fits == nullptr) return absl::OkStatus();
  const OperatorAttrs attrs = bind_attributes(instruction.attributes());
  const char* wanted = kernel.fits(attrs, *backend.device);
  if (wanted == nullptr) return absl::OkStatus();
  return failed_precondition("instruction {}: kernel {} needs {}, found {}; use another --device",
                             index, kernel.name, wanted,
                             attributes_text(instruction.attributes(), true));
}

}  // namespace

// The type of the operator's state if it has one, else that of the first weight that is a matrix.
DType weight_dtype(const Program& program, const Instruction& instruction) {
  if (schema_of(op_of(instruction)).state == StateKind::kKvPages) {
    return dtype_of(program.states(state_of(bind_attributes(instruction.attributes()))).dtype());
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

std::vector<const KernelEntry*> kernels_for(const Program& program, const Backend& backend, Op op,
                                            DType weight, DType activation) {
  std::vector<const KernelEntry*> kernels;
  std::span<const KernelEntry> table = backend.kernels;
  while (const auto* kernel = find_kernel(table, op, weight, activation, backend.isa)) {
    if (serves_class(*kernel, program.numeric_class())) kernels.push_back(kernel);
    table = table.subspan(static_cast<size_t>(kernel - table.data()) + 1);
  }
  return kernels;
}

absl::StatusOr<Bindings> bind(const Program& program, const Backend& backend,
                              std::span<const KernelEntry* const> chosen) {
  Bindings bindings;
  bindings.packers.resize(program.weights_size());
  bindings.used.resize(program.weights_size());
  bindings.states.resize(program.states_size());
  for (int i = 0; i < program.instructions_size(); ++i) {
    const Instruction& instruction = program.instructions(i);
    bindings.kernels.push_back(nullptr);
    const OperatorSchema& schema = schema_of(op_of(instruction));
    if (schema.run_by != RunBy::kKernel) continue;
    RETURN_IF_ERROR(check_rounding(program, i, backend));
    const KernelEntry* kernel = chosen.empty() ? nullptr : chosen[i];
    if (kernel == nullptr) {
      ASSIGN_OR_RETURN(kernel, first_kernel(program, i, backend));
    }
    RETURN_IF_ERROR(check_fit(*kernel, instruction, i, backend));
    bindings.kernels.back() = kernel;
    const int state = state_of(bind_attributes(instruction.attributes()));
    if (state >= 0) bindings.states[state] = kernel;
    RETURN_IF_ERROR(note_weights(program, instruction, kernel, bindings));
  }
  return bindings;
}

}  // namespace lockstep
