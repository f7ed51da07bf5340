// SPDX-License-Identifier: Apache-2.0
// Sums over a Program, and the ranges of the plan.
#include "sharding/cost.h"

#include "base/check.h"
#include "base/numbers/quantization.h"
#include "base/status.h"

namespace lockstep {
namespace {

int64_t bytes_of(program::DType dtype) { return dtype_bytes(static_cast<DType>(dtype)); }

PlanRow program_costs(const program::Program& program) {
  PlanRow row{.rank = program.rank(),
              .arena_bytes = program.arena_bytes() + program.shared_bytes(),
              .columns = {}};
  for (const program::Weight& weight : program.weights()) {
    row.weight_bytes +=
        matrix_bytes(static_cast<DType>(weight.dtype()), weight.rows(), weight.cols());
  }
  for (const program::State& state : program.states()) {
    if (state.has_block()) {
      row.block_bytes += state.block().rows() * state.block().cols() * bytes_of(state.dtype());
      continue;
    }
    // One scale per key, and one per value, unless values are columns of keys.
    const int64_t scales = state.dtype() != program::I8 ? 0 : state.kv().v_dim() == 0 ? 1 : 2;
    row.kv_bytes_per_token +=
        state.kv().kv_heads() *
        ((state.kv().k_dim() + state.kv().v_dim()) * bytes_of(state.dtype()) + 4 * scales);
  }
  for (const program::Instruction& instruction : program.instructions()) {
    const bool gathers = instruction.op() == program::ALL_GATHER;
    const bool reduces = instruction.op() == program::ALL_REDUCE;
    if (!gathers && !reduces) continue;
    row.gathers += gathers ? 1 : 0;
    row.reduces += reduces ? 1 : 0;
    const program::Value& given = program.values(instruction.inputs(0).value());
    const program::RowDomain& rows = program.row_domains(given.rows());
    if (rows.of() != program::TOKENS) continue;
    row.collective_bytes_per_token +=
        rows.rows_each() * row_bytes(static_cast<DType>(given.dtype()), given.cols());
  }
  return row;
}

// The size of each axis: the max over the model's values.
std::array<AxisSize, kAxisCount> axes_of(const Graph& model) {
  std::array<AxisSize, kAxisCount> axes = {};
  const auto note = [&](AxisSize axis) {
    AxisSize& known = axes[static_cast<size_t>(axis.axis)];
    if (axis.columns() > known.columns()) known = axis;
  };
  for (const ValueInfo& value : model.values()) note(value.axis);
  return axes;
}

}  // namespace

absl::StatusOr<PlanTable> plan_table(const Graph& model, const CompileOptions& options,
                                     const std::vector<program::Program>& programs) {
  ASSIGN_OR_RETURN(const Plan plan, make_plan(model, options));
  const std::array<AxisSize, kAxisCount> axes = axes_of(model);
  PlanTable table{
      .model = model.model, .strategy = options.strategy, .kv_dtype = options.kv_dtype, .rows = {}};
  for (const program::Program& program : programs) {
    PlanRow row = program_costs(program);
    for (int i = 1; i < kAxisCount; ++i) row.columns[i] = plan.columns(axes[i], program.rank());
    table.rows.push_back(row);
  }
  return table;
}

std::vector<PlanHost> plan_hosts(const PlanTable& table, int hosts) {
  const int ranks = static_cast<int>(table.rows.size());
  LOCKSTEP_CHECK(1 <= hosts && hosts <= ranks);
  std::vector<PlanHost> plan(static_cast<size_t>(hosts));
  int64_t all = 0;
  for (int host = 0; host < hosts; ++host) {
    PlanHost& one = plan[static_cast<size_t>(host)];
    one.first_rank = host * ranks / hosts;
    one.end_rank = (host + 1) * ranks / hosts;
    int64_t given = 0;
    for (int rank = one.first_rank; rank < one.end_rank; ++rank) {
      given += table.rows[static_cast<size_t>(rank)].collective_bytes_per_token;
    }
    one.sent_bytes_per_token = given * (hosts - 1);
    one.received_bytes_per_token = -given;
    all += given;
  }
  for (PlanHost& one : plan) one.received_bytes_per_token += all;
  return plan;
}

}  // namespace lockstep
