// SPDX-License-Identifier: Apache-2.0
// Binding first: operands to memory, attributes to kernels. Then the loop over calls.
#include "worker/executor.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "base/check.h"
#include "base/status.h"
#include "worker/kernels/find.h"

namespace lockstep {
namespace {

using program::Instruction;
using program::Program;

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

TensorView view_of(const Program& program, const program::Value& value) {
  return {.data = nullptr,
          .rows = value.rows() == program::TOKENS ? program.limits().rows()
                                                  : program.limits().outputs(),
          .cols = value.cols(),
          .stride = value.stride(),
          .dtype = dtype_of(value.dtype())};
}

KernelCost moved_bytes(const KernelArgs& args) {
  const TensorView& out = args.out[0];
  return {.bytes = out.rows * out.cols * dtype_bytes(out.dtype), .flops = 0};
}

}  // namespace

// Everything but addresses, for the largest step.
Executor::Call Executor::shape(const Program& program, const Instruction& instruction,
                               const KernelEntry* kernel) {
  Call call;
  call.kernel = kernel;
  call.args.attrs = attributes_of(instruction);
  const auto rows_of = [](const program::Value& value) {
    return value.rows() == program::TOKENS ? RowsOf::kTokens : RowsOf::kOutputs;
  };
  for (int i = 0; i < instruction.inputs_size(); ++i) {
    const program::Operand& operand = instruction.inputs(i);
    if (operand.kind_case() == program::Operand::kWeight) {
      const program::Weight& weight = program.weights(operand.weight());
      call.args.in[i] = {.data = nullptr,
                         .rows = weight.rows(),
                         .cols = weight.cols(),
                         .stride = weight.cols(),
                         .dtype = dtype_of(weight.dtype())};
      continue;
    }
    const program::Value& value = program.values(operand.value());
    call.args.in[i] = view_of(program, value);
    call.in_rows[i] = call.rows = rows_of(value);
  }
  for (int i = 0; i < instruction.outputs_size(); ++i) {
    const program::Value& value = program.values(instruction.outputs(i));
    call.args.out[i] = view_of(program, value);
    call.out_rows[i] = call.rows = rows_of(value);
  }
  return call;
}

int64_t buffer_bytes(const Program& program, const Bindings& bindings, int threads) {
  int64_t scratch = 0;
  for (int i = 0; i < program.instructions_size(); ++i) {
    const KernelEntry* kernel = bindings.kernels[i];
    if (kernel == nullptr) continue;
    const Executor::Call call = Executor::shape(program, program.instructions(i), kernel);
    scratch = std::max(scratch, scratch_bytes(*kernel, call.args, threads));
  }
  return align_memory(program.arena_bytes()) + align_memory(scratch);
}

absl::StatusOr<std::unique_ptr<Executor>> Executor::make(const Program& program,
                                                         const Bindings& bindings,
                                                         const Weights& weights,
                                                         Parallel& parallel) {
  std::unique_ptr<Executor> executor(new Executor);
  const int64_t arena = align_memory(program.arena_bytes());
  const int64_t scratch = buffer_bytes(program, bindings, parallel.threads()) - arena;
  ASSIGN_OR_RETURN(executor->arena_, Memory::allocate(arena, "values of a step"));
  ASSIGN_OR_RETURN(executor->scratch_, Memory::allocate(scratch, "scratch of kernels"));
  for (int i = 0; i < program.instructions_size(); ++i) {
    const Instruction& instruction = program.instructions(i);
    if (instruction.op() == program::COLUMNS) continue;
    Call call = shape(program, instruction, bindings.kernels[i]);
    executor->connect(program, instruction, weights, call);
    call.args.parallel = &parallel;
    call.args.scratch = executor->scratch_.data();
    executor->calls_.push_back(std::move(call));
  }
  return executor;
}

void Executor::connect(const Program& program, const Instruction& instruction,
                       const Weights& weights, Call& call) {
  for (int i = 0; i < instruction.inputs_size(); ++i) {
    const program::Operand& operand = instruction.inputs(i);
    if (operand.kind_case() == program::Operand::kWeight) {
      call.args.in[i] = weights.view(operand.weight());
    } else {
      call.args.in[i].data = arena_.data() + program.values(operand.value()).offset_bytes();
    }
  }
  for (int i = 0; i < instruction.outputs_size(); ++i) {
    const program::Value& value = program.values(instruction.outputs(i));
    call.args.out[i].data = arena_.data() + value.offset_bytes();
  }
  if (instruction.op() == program::ALL_REDUCE) call.kind = Kind::kAllReduce;
  if (instruction.op() == program::ALL_GATHER) {
    call.kind = Kind::kAllGather;
    const auto& boundaries = instruction.attributes().gather().boundaries();
    call.boundaries.assign(boundaries.begin(), boundaries.end());
  }
  if (instruction.op() == program::ATTENTION) {
    call.state = instruction.attributes().attention().state();
  }
  if (instruction.op() == program::TOP_CANDIDATES) logits_ = call.args.in[0];
  call.profile_row = profile_.row(
      call.kernel != nullptr ? call.kernel->name : std::string(op_name(op_of(instruction))));
}

void Executor::use(const State& state) {
  for (Call& call : calls_) {
    if (call.state >= 0) call.args.state = state.view(call.state);
  }
}

void Executor::set_rows(Call& call, const StepView& step) {
  const auto set = [&step](TensorView& view, RowsOf rows) {
    if (rows == RowsOf::kTokens) view.rows = step.rows;
    if (rows == RowsOf::kOutputs) view.rows = step.output_count;
  };
  for (int i = 0; i < kMaxInputs; ++i) set(call.args.in[i], call.in_rows[i]);
  for (int i = 0; i < kMaxOutputs; ++i) set(call.args.out[i], call.out_rows[i]);
}

absl::Status Executor::run(StepView& step) {
  profile_.add_step();
  int64_t before_ns = now_ns();
  for (Call& call : calls_) {
    set_rows(call, step);
    KernelCost cost;
    if (call.kind == Kind::kKernel) {
      const int64_t rows = call.rows == RowsOf::kTokens ? step.rows : step.output_count;
      if (rows == 0) continue;
      call.args.step = &step;
      call.kernel->run(call.args);
      cost = kernel_cost(*call.kernel, call.args);
    } else {
      LOCKSTEP_CHECK(collective_ != nullptr);
      RETURN_IF_ERROR(call.kind == Kind::kAllReduce ? reduce(call) : gather(call));
      cost = moved_bytes(call.args);
    }
    const int64_t after_ns = now_ns();
    profile_.add(call.profile_row, after_ns - before_ns, cost);
    before_ns = after_ns;
  }
  return absl::OkStatus();
}

absl::Status Executor::reduce(const Call& call) {
  const TensorView &x = call.args.in[0], &sum = call.args.out[0];
  if (x.data != sum.data) {
    for (int64_t row = 0; row < x.rows; ++row) {
      std::memcpy(sum.row<float>(row), x.row<float>(row),
                  static_cast<size_t>(x.cols) * sizeof(float));
    }
  }
  return collective_->all_reduce(sum.row<float>(0), sum.rows, sum.cols, sum.stride);
}

absl::Status Executor::gather(const Call& call) {
  const TensorView &part = call.args.in[0], &whole = call.args.out[0];
  return collective_->all_gather({.in = part.data,
                                  .in_stride = part.stride,
                                  .out = whole.data,
                                  .out_stride = whole.stride,
                                  .rows = whole.rows,
                                  .boundaries = call.boundaries,
                                  .element_bytes = dtype_bytes(whole.dtype)});
}

}  // namespace lockstep
