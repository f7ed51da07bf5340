// SPDX-License-Identifier: Apache-2.0
// First binds operands to memory and attributes to kernels, then loops over calls.
#include "worker/steps/executor.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "base/system/clock.h"
#include "operators/attribute_fields.h"
#include "operators/schema/schema.h"
#include "proto/attributes.h"
#include "proto/row_domains.h"
#include "worker/kernels/find.h"

namespace lockstep {
namespace {

using program::Instruction;
using program::Program;

TensorView view_of(const Program& program, const program::Value& value) {
  return {.data = nullptr,
          .rows = max_rows(program.row_domains(value.rows()), program.limits()),
          .cols = value.cols(),
          .stride = value.stride(),
          .dtype = dtype_of(value.dtype())};
}

StepSizes step_sizes(const Program& program) {
  StepSizes sizes{.page_tokens = program.limits().page_tokens(),
                  .vocab = program.vocab(),
                  .hidden = program.hidden()};
  for (const Instruction& instruction : program.instructions()) {
    if (instruction.op() != program::TOP_CANDIDATES) continue;
    sizes.slice_columns = program.values(instruction.inputs(0).value()).cols();
  }
  return sizes;
}

absl::Status kernel_status(const KernelEntry& kernel, const char* failure) {
  return absl::InternalError(fmt::format("kernel {}: {}", kernel.name, failure));
}

// Sets the number of rows of each row domain.
void count_rows(const Program& program, const StepView& step, std::vector<int64_t>& domain_rows) {
  for (int i = 0; i < program.row_domains_size(); ++i) {
    domain_rows[i] = rows_in(program.row_domains(i), step.rows, step.output_count);
  }
}

KernelCost moved_bytes(const KernelArgs& args) {
  const TensorView& out = args.out[0];
  return {.bytes = out.rows * row_bytes(out.dtype, out.cols), .flops = 0};
}

}  // namespace

// A call without addresses, with the rows of the largest step.
Executor::Call Executor::shape(const Program& program, const Instruction& instruction,
                               const KernelEntry* kernel) {
  Call call;
  call.kernel = kernel;
  call.args.attrs = bind_attributes(instruction.attributes());
  std::fill_n(call.in_rows, kMaxInputs, kFixedRows);
  std::fill_n(call.out_rows, kMaxOutputs, kFixedRows);
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
    call.in_rows[i] = call.rows = value.rows();
  }
  for (int i = 0; i < instruction.outputs_size(); ++i) {
    const program::Value& value = program.values(instruction.outputs(i));
    call.args.out[i] = view_of(program, value);
    call.out_rows[i] = call.rows = value.rows();
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
  return align_memory(program.arena_bytes()) + align_memory(program.shared_bytes()) +
         align_memory(scratch);
}

// kernel_cost() counts only operands that have an address. Ids of experts (int32) get no address,
// because a plan does not know which experts a step uses.
std::vector<KernelCost> instruction_costs(const Program& program, const Bindings& bindings,
                                          const StepView& step) {
  StepView view = step;
  std::byte anywhere{};
  std::vector<int64_t> domain_rows(program.row_domains_size());
  count_rows(program, step, domain_rows);
  std::vector<KernelCost> costs(program.instructions_size());
  for (int i = 0; i < program.instructions_size(); ++i) {
    const Instruction& instruction = program.instructions(i);
    const OperatorSchema& schema = schema_of(op_of(instruction));
    if (schema.run_by == RunBy::kView) continue;
    Executor::Call call = Executor::shape(program, instruction, bindings.kernels[i]);
    Executor::set_rows(domain_rows, call);
    if (call.kernel == nullptr) {
      costs[i] = moved_bytes(call.args);
      continue;
    }
    for (TensorView& in : call.args.in) {
      if (in.dtype != DType::kNone && in.dtype != DType::kI32) in.data = &anywhere;
    }
    if (schema.state == StateKind::kBlock) {
      const program::Block& block = program.states(state_of(call.args.attrs)).block();
      call.args.state.page_bytes = block.rows() * block.cols() * int64_t{sizeof(float)};
    }
    call.args.step = &view;
    costs[i] = kernel_cost(*call.kernel, call.args);
  }
  return costs;
}

Executor::Executor(Device& device, const Program& program)
    : device_(device),
      program_(program),
      device_step_(device, step_sizes(program)),
      domain_rows_(program.row_domains_size()) {}

absl::StatusOr<std::unique_ptr<Executor>> Executor::make(const Program& program,
                                                         const Bindings& bindings,
                                                         const Weights& weights, Device& device,
                                                         Parallel& parallel) {
  std::unique_ptr<Executor> executor(new Executor(device, program));
  const int64_t arena = align_memory(program.arena_bytes());
  const int64_t shared = align_memory(program.shared_bytes());
  const int64_t scratch = buffer_bytes(program, bindings, parallel.threads()) - arena - shared;
  ASSIGN_OR_RETURN(executor->arena_, allocate_memory(device, arena, "values of a step"));
  ASSIGN_OR_RETURN(executor->shared_, allocate_memory(device, shared, "values that ranks share"));
  ASSIGN_OR_RETURN(executor->scratch_, allocate_memory(device, scratch, "scratch of kernels"));
  for (int i = 0; i < program.instructions_size(); ++i) {
    const Instruction& instruction = program.instructions(i);
    if (schema_of(op_of(instruction)).run_by == RunBy::kView) continue;
    Call call = shape(program, instruction, bindings.kernels[i]);
    executor->connect(instruction, weights, call);
    call.instruction = i;
    call.args.parallel = &parallel;
    call.args.scratch = executor->scratch_.data();
    call.args.queue = device.queue();
    executor->calls_.push_back(std::move(call));
  }
  executor->find_norms();
  executor->peers_row_ = executor->profile_.row("wait for other ranks");
  executor->place_values(executor->shared_.data());
  if (device.is_host()) return executor;
  executor->wait_row_ = executor->profile_.row("wait for the device");
  ASSIGN_OR_RETURN(
      executor->answer_,
      allocate_staging(device, executor->logits_.cols * int64_t{sizeof(float)}, "a row of logits"));
  RETURN_IF_ERROR(executor->place_tables());
  return executor;
}

// Copies the tables that attributes point to onto the device, and makes the pointers point there.
absl::Status Executor::place_tables() {
  int64_t bytes = 0;
  const auto each_table = [this](const auto& visit) {
    for (Call& call : calls_) visit_lists(call.args.attrs, visit);
  };
  const auto size_of = [](const auto& table) {
    return table.size * static_cast<int64_t>(sizeof(table[0]));
  };
  each_table([&](const auto& table) { bytes += align_memory(size_of(table)); });
  ASSIGN_OR_RETURN(tables_, allocate_memory(device_, bytes, "tables of attributes"));
  std::byte* next = tables_.data();
  each_table([&](auto& table) {
    const int64_t size = size_of(table);
    device_.copy_in(next, table.data, size);
    table.data = reinterpret_cast<decltype(table.data)>(next);
    next += align_memory(size);
  });
  return device_status(device_.synchronize(), device_);
}

// Sets everything in `call` except the addresses of values.
void Executor::connect(const Instruction& instruction, const Weights& weights, Call& call) {
  for (int i = 0; i < instruction.inputs_size(); ++i) {
    const program::Operand& operand = instruction.inputs(i);
    if (operand.kind_case() != program::Operand::kWeight) continue;
    call.args.in[i] = weights.view(operand.weight());
  }
  if (instruction.op() == program::ALL_REDUCE) call.kind = Kind::kAllReduce;
  if (instruction.op() == program::ALL_GATHER) {
    call.kind = Kind::kAllGather;
    for (const int64_t boundary : call.args.attrs.gather().boundaries) {
      call.boundaries.push_back(groups_of(call.args.out[0].dtype, boundary));
    }
    call.shared = program_.values(instruction.outputs(0)).shared();
  }
  call.state = state_of(call.args.attrs);
  call.profile_row = profile_.row(
      call.kernel != nullptr ? call.kernel->name : std::string(op_name(op_of(instruction))));
}

// A collective may combine a sum with the add_norm that reads it.
void Executor::find_norms() {
  for (size_t i = 0; i + 1 < calls_.size(); ++i) {
    const Instruction& sum = program_.instructions(calls_[i].instruction);
    const Instruction& next = program_.instructions(calls_[i + 1].instruction);
    if (sum.op() != program::ALL_REDUCE || next.op() != program::ADD_NORM) continue;
    if (next.inputs(1).value() == sum.outputs(0)) calls_[i].norm = &calls_[i + 1];
  }
}

// Sets the values' addresses: shared values begin at `shared`, the others are in the arena.
void Executor::place_values(std::byte* shared) {
  const auto address = [&](int index) {
    const program::Value& value = program_.values(index);
    return (value.shared() ? shared : arena_.data()) + value.offset_bytes();
  };
  auto call = calls_.begin();
  for (const Instruction& instruction : program_.instructions()) {
    if (schema_of(op_of(instruction)).run_by == RunBy::kView) continue;
    for (int i = 0; i < instruction.inputs_size(); ++i) {
      const program::Operand& operand = instruction.inputs(i);
      if (operand.has_value()) call->args.in[i].data = address(operand.value());
    }
    for (int i = 0; i < instruction.outputs_size(); ++i) {
      call->args.out[i].data = address(instruction.outputs(i));
    }
    if (instruction.op() == program::TOP_CANDIDATES) logits_ = call->args.in[0];
    ++call;
  }
}

void Executor::use(Collective* collective) {
  collective_ = collective;
  if (graphs_ != nullptr) graphs_->use(*collective);
  const std::span<std::byte> given = collective->shared();
  shares_ = static_cast<int64_t>(given.size()) >= program_.shared_bytes();
  place_values(shares_ ? given.data() : shared_.data());
}

void Executor::use(const State& state) {
  for (Call& call : calls_) {
    if (call.state >= 0) call.args.state = state.view(call.state);
  }
  if (graphs_ != nullptr) graphs_->use(state.room());
}

void Executor::set_rows(const std::vector<int64_t>& domain_rows, Call& call) {
  for (int i = 0; i < kMaxInputs; ++i) {
    if (call.in_rows[i] != kFixedRows) call.args.in[i].rows = domain_rows[call.in_rows[i]];
  }
  for (int i = 0; i < kMaxOutputs; ++i) {
    if (call.out_rows[i] != kFixedRows) call.args.out[i].rows = domain_rows[call.out_rows[i]];
  }
}

absl::Status Executor::run(StepView& step, std::vector<OperatorTime>* times, MadeValues* values) {
  profile_.add_step();
  instructions_before_ = progress_->instructions.load(std::memory_order_relaxed);
  if (device_.is_host()) return run_calls(step, step, times, values);
  const bool as_a_graph = graphs_ != nullptr && times == nullptr && values == nullptr;
  StepView* const padded = as_a_graph ? graphs_->pad(step) : nullptr;
  StepView& taken = padded != nullptr ? *padded : step;
  StepView* on_device = device_step_.take(taken);
  if (on_device == nullptr) {
    return resource_exhausted("{} has no room left for a step; use a smaller --memory-fraction",
                              device_.name());
  }
  const auto direct = [&] { return run_calls(taken, *on_device, times, values); };
  absl::Status status = padded != nullptr ? graphs_->run(*on_device, direct) : direct();
  const int64_t before_ns = steady_now_ns();
  if (status.ok() && collective_ != nullptr) {
    const WaitingMark waiting(*progress_);
    status = collective_->finish();
  }
  if (!status.ok()) {
    static_cast<void>(device_.synchronize());  // Queued work uses memory that may be freed now.
    return status;
  }
  const char* failure = device_step_.give(step);
  if (failure == nullptr) completed(static_cast<int64_t>(calls_.size()));
  profile_.add(wait_row_, steady_now_ns() - before_ns, {});
  return device_status(failure, device_);
}

// `on_device` is the step as kernels see it. On a GPU the profile has the times of queueing.
absl::Status Executor::run_calls(StepView& step, StepView& on_device,
                                 std::vector<OperatorTime>* times, MadeValues* values) {
  count_rows(program_, step, domain_rows_);
  const bool queued = !device_.is_host();
  int64_t before_ns = steady_now_ns();
  int64_t done = 0;
  bool is_normed = false;  // The next kernel is an add_norm that its collective has computed.
  for (Call& call : calls_) {
    ++done;
    set_rows(domain_rows_, call);
    KernelCost cost;
    int64_t wait_ns = 0;
    if (call.kind == Kind::kKernel) {
      if (domain_rows_[call.rows] == 0) continue;
      call.args.step = &on_device;
      const bool is_done = std::exchange(is_normed, false);
      const char* failure = is_done ? nullptr : call.kernel->run(call.args);
      if (failure == nullptr && checks_each_) failure = device_.synchronize();
      if (failure != nullptr) return kernel_status(*call.kernel, failure);
      call.args.step = &step;
      cost = kernel_cost(*call.kernel, call.args);
    } else {
      LOCKSTEP_CHECK(collective_ != nullptr);
      const WaitingMark waiting(*progress_);
      const int64_t waited_ns = collective_->waited().wait_ns;
      Call* const norm = values == nullptr ? call.norm : nullptr;  // `values` needs the sums.
      RETURN_IF_ERROR(call.kind == Kind::kAllReduce ? reduce(call, norm, &is_normed)
                                                    : gather(call));
      if (checks_each_) RETURN_IF_ERROR(collective_->finish());
      if (!call.shared || !shares_) cost = moved_bytes(call.args);
      wait_ns = collective_->waited().wait_ns - waited_ns;
      profile_.add(peers_row_, wait_ns, {});
    }
    if (!queued || call.kind != Kind::kKernel) completed(done);
    if (loading_ != nullptr) loading_->add_load(1);
    if (values != nullptr) {
      RETURN_IF_ERROR(keep_values(program_, call.instruction, call.args.out, device_, *values));
    }
    const int64_t after_ns = steady_now_ns();
    profile_.add(call.profile_row, after_ns - before_ns - wait_ns, cost);
    if (times != nullptr) times->push_back({call.instruction, before_ns, after_ns, wait_ns});
    before_ns = after_ns;
  }
  if (!queued) completed(done);  // Calls that were left out at the end count, too.
  return absl::OkStatus();
}

void Executor::completed(int64_t calls) {
  progress_->instructions.store(instructions_before_ + static_cast<uint64_t>(calls),
                                std::memory_order_relaxed);
}

absl::Status Executor::reduce(const Call& call, Call* norm, bool* is_normed) {
  const TensorView &x = call.args.in[0], &sum = call.args.out[0];
  constexpr int64_t kBytes = sizeof(float);
  if (x.data != sum.data) {
    device_.copy_rows({.to = sum.data,
                       .to_stride = sum.stride * kBytes,
                       .from = x.data,
                       .from_stride = x.stride * kBytes,
                       .row_bytes = x.cols * kBytes,
                       .rows = x.rows});
  }
  if (norm != nullptr) {
    set_rows(domain_rows_, *norm);
    ASSIGN_OR_RETURN(*is_normed, collective_->reduce_add_norm(norm->args));
    if (*is_normed) return absl::OkStatus();
  }
  return collective_->all_reduce(sum.row<float>(0), sum.rows, sum.cols, sum.stride);
}

absl::Status Executor::gather(const Call& call) {
  const TensorView &part = call.args.in[0], &whole = call.args.out[0];
  return collective_->all_gather({.in = part.data,
                                  .in_stride = groups_of(part.dtype, part.stride),
                                  .out = whole.data,
                                  .out_stride = groups_of(whole.dtype, whole.stride),
                                  .rows = whole.rows,
                                  .boundaries = call.boundaries,
                                  .element_bytes = group_bytes(whole.dtype)});
}

absl::StatusOr<std::string> Executor::logits(int64_t output) {
  const auto bytes = static_cast<size_t>(logits_.cols) * sizeof(float);
  const auto* row = reinterpret_cast<const std::byte*>(logits_.row<float>(output));
  if (device_.is_host()) return std::string(reinterpret_cast<const char*>(row), bytes);
  device_.copy_out(answer_.data(), row, static_cast<int64_t>(bytes));
  RETURN_IF_ERROR(device_status(device_.synchronize(), device_));
  return std::string(reinterpret_cast<const char*>(answer_.data()), bytes);
}

}  // namespace lockstep
