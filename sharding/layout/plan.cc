// SPDX-License-Identifier: Apache-2.0
// Finds boundaries by the largest remainder method, with speeds in eighths. The vocabulary is split
// in blocks of 64 ids; an axis over which quantized linears sum is split in whole groups.
#include "sharding/layout/plan.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "base/check.h"
#include "base/numbers/quantization.h"
#include "base/status.h"
#include "operators/schema/schema.h"
#include "proto/validate/validate.h"

namespace lockstep {
namespace {

absl::StatusOr<std::vector<int64_t>> to_eighths(const std::vector<WorkerFacts>& workers) {
  double fastest = 0;
  bool measured = true;
  for (size_t rank = 0; rank < workers.size(); ++rank) {
    const double speed = workers[rank].speed;
    if (!std::isfinite(speed) || speed < 0) {
      return invalid_argument("speed of rank {}: must be a finite number of 0 or more, found {}",
                              rank, speed);
    }
    measured &= speed > 0;
    fastest = std::max(fastest, speed);
  }
  std::vector<int64_t> eighths;
  eighths.reserve(workers.size());
  for (const WorkerFacts& worker : workers) {
    eighths.push_back(measured ? std::max<int64_t>(1, std::llround(8 * worker.speed / fastest))
                               : 8);
  }
  return eighths;
}

// The max number of heads of a layer; 0 if no layer has any.
int64_t max_heads(const Graph& graph) {
  int64_t heads = 0;
  for (const Node& node : graph.nodes()) {
    heads = std::max(
        {heads, node.attributes.attention().heads(), node.attributes.recurrence().heads()});
  }
  return heads;
}

// Under gather, ffn columns that a quantized linear reads are also split between groups, so that a
// rank's part can be rounded before it is sent (passes/round_parts.cc). A panel of a weight has as
// many columns as a group, so equal ranks still have equal work. If some rank would then get no
// columns, the columns are split without regard to groups.
void find_ffn_grain(const Graph& graph, const CompileOptions& options, Plan& plan) {
  if (!take_rounded_rows(options.workers)) return;
  bool rounded = false;
  for (const Node& node : graph.nodes()) {
    if (!schema_of(node.op).multiplies()) continue;
    const Parameter& weight = graph.parameters()[node.parameters[0]];
    if (weight.cols.axis != Axis::kFfn) continue;
    if (weight.cols.unit != 1 || weight.cols.count <= (plan.ranks - 1) * kRoundedGroup) return;
    const DType dtype = options.weight_dtype(weight.pieces[0].source(), weight.role);
    rounded = rounded || rounded_rows(dtype) != DType::kNone;
  }
  if (rounded) plan.grains[static_cast<size_t>(Axis::kFfn)] = kRoundedGroup;
}

// If the axis over which a quantized linear sums is split, the boundaries are between groups.
absl::Status find_grains(const Graph& graph, const CompileOptions& options, Plan& plan) {
  if (!options.weight_dtype) return absl::OkStatus();
  if (plan.strategy == Strategy::kGather) {
    find_ffn_grain(graph, options, plan);
    return absl::OkStatus();
  }
  for (const Node& node : graph.nodes()) {
    if (!schema_of(node.op).multiplies()) continue;
    const Parameter& weight = graph.parameters()[node.parameters[0]];
    const AxisSize axis = weight.cols;
    const DType dtype = options.weight_dtype(weight.pieces[0].source(), weight.role);
    const std::optional<Quantization> kind = quantization(dtype);
    if (!kind || !plan.splits(axis.axis)) continue;
    const int64_t group = kind->group == 0 ? axis.columns() : kind->group;
    int64_t& grain = plan.grains[static_cast<size_t>(axis.axis)];
    grain = std::lcm(grain, group / std::gcd(group, axis.unit));
    if ((axis.count + grain - 1) / grain >= plan.ranks) continue;
    return invalid_argument(
        "--strategy reduce splits the {} columns of {} over {} workers, but {} weights have groups "
        "of {}, which are never split: use --strategy gather",
        axis.columns(), axis_name(axis.axis), plan.ranks, dtype_name(dtype), group);
  }
  return absl::OkStatus();
}

}  // namespace

const char* strategy_name(Strategy strategy) {
  return strategy == Strategy::kGather ? "gather" : "reduce";
}

std::vector<int64_t> apportion(int64_t count, std::span<const int64_t> eighths) {
  const int64_t total = std::accumulate(eighths.begin(), eighths.end(), int64_t{0});
  LOCKSTEP_CHECK(total > 0 && count >= 0);
  const size_t ranks = eighths.size();
  std::vector<int64_t> shares(ranks);
  std::vector<size_t> by_remainder(ranks);
  std::iota(by_remainder.begin(), by_remainder.end(), size_t{0});
  for (size_t i = 0; i < ranks; ++i) shares[i] = count * eighths[i] / total;
  std::stable_sort(by_remainder.begin(), by_remainder.end(), [&](size_t a, size_t b) {
    return count * eighths[a] % total > count * eighths[b] % total;
  });
  int64_t left = count - std::accumulate(shares.begin(), shares.end(), int64_t{0});
  for (size_t i = 0; left > 0; ++i, --left) ++shares[by_remainder[i]];
  if (count < static_cast<int64_t>(ranks)) return shares;
  for (int64_t& share : shares) {
    if (share > 0) continue;
    --*std::max_element(shares.begin(), shares.end());
    ++share;
  }
  return shares;
}

bool Plan::splits(Axis axis) const {
  if (ranks == 1 || axis == Axis::kNone) return false;
  return strategy == Strategy::kGather || (axis != Axis::kHidden && axis != Axis::kLatent);
}

Range Plan::units(AxisSize axis, int rank) const {
  LOCKSTEP_CHECK(0 <= rank && rank < ranks);
  if (!splits(axis.axis)) return {0, axis.count};
  if (axis.axis == Axis::kKvHeads) {
    LOCKSTEP_CHECK(axis.count > 0 && axis.serves % axis.count == 0);
    const Range queries = units({Axis::kHeads, axis.serves, 1}, rank);
    const int64_t group = axis.serves / axis.count;
    const int64_t begin = queries.begin / group;
    return {begin, queries.size() == 0 ? begin : (queries.end - 1) / group + 1};
  }
  const int64_t grain = grains[static_cast<size_t>(axis.axis)];
  const std::vector<int64_t> shares = apportion((axis.count + grain - 1) / grain, eighths);
  const int64_t before = std::accumulate(shares.begin(), shares.begin() + rank, int64_t{0});
  return {std::min(axis.count, before * grain),
          std::min(axis.count, (before + shares[rank]) * grain)};
}

Range Plan::columns(AxisSize axis, int rank) const {
  const Range range = units(axis, rank);
  return {range.begin * axis.unit, range.end * axis.unit};
}

Range Plan::owned(AxisSize axis, int rank) const {
  const Range held = units(axis, rank);
  if (axis.axis != Axis::kKvHeads) return held;
  const int64_t end = rank + 1 < ranks ? units(axis, rank + 1).begin : axis.count;
  LOCKSTEP_CHECK(held.begin <= end && end <= held.end);
  return {held.begin, end};
}

bool Plan::has_copies(AxisSize axis) const {
  for (int rank = 0; rank < ranks; ++rank) {
    if (owned(axis, rank) != units(axis, rank)) return true;
  }
  return false;
}

std::vector<int64_t> Plan::boundaries(AxisSize axis) const {
  LOCKSTEP_CHECK(splits(axis.axis));
  std::vector<int64_t> all = {0};
  for (int rank = 0; rank < ranks; ++rank) {
    const Range range = owned(axis, rank);
    LOCKSTEP_CHECK(range.begin * axis.unit == all.back());
    all.push_back(range.end * axis.unit);
  }
  LOCKSTEP_CHECK(all.back() == axis.columns());
  return all;
}

absl::StatusOr<Plan> make_plan(const Graph& graph, const CompileOptions& options) {
  RETURN_IF_ERROR(check_worker_count(static_cast<int64_t>(options.workers.size())));
  Plan plan{.ranks = static_cast<int>(options.workers.size()), .strategy = options.strategy};
  const int64_t heads = max_heads(graph);
  if (heads != 0 && plan.ranks > heads) {
    return invalid_argument(
        "{} workers requested, but the model has {} heads: use --workers {} or fewer", plan.ranks,
        heads, heads);
  }
  RETURN_IF_ERROR(find_grains(graph, options, plan));
  ASSIGN_OR_RETURN(plan.eighths, to_eighths(options.workers));
  return plan;
}

}  // namespace lockstep
