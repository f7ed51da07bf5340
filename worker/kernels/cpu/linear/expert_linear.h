// SPDX-License-Identifier: Apache-2.0
// expert_linear: each route's row times its expert's matrix. Routes are sorted by expert, so that
// all rows of one expert are computed like one linear (linear.h). A row has the bits that linear
// would give it, whatever other rows its expert has. A group is all rows of one expert, or at most
// kGroupRows of them.
#pragma once

#include "worker/kernels/cpu/linear/linear.h"

namespace lockstep::LOCKSTEP_ISA {
namespace {

// A group's rows, in the order of routes.
struct RoutedRows {
  const int32_t* order;
  int64_t each;  // Routes for each row of x.

  int64_t of_x(int64_t row) const { return order[row] / each; }
  int64_t of_out(int64_t row) const { return order[row]; }
};

// Sorts routes by expert; returns the number of groups, or -1 if an id is out of range.
int64_t group_routes(const TensorView& ids, int64_t experts, int32_t* order, int32_t* begins,
                     ExpertGroup* groups) {
  for (int64_t e = 0; e <= experts; ++e) begins[e] = 0;
  for (int64_t r = 0; r < ids.rows; ++r) {
    const int32_t id = *ids.row<int32_t>(r);
    if (id < 0 || id >= experts) return -1;
    ++begins[id + 1];
  }
  int64_t count = 0;
  for (int64_t e = 0; e < experts; ++e) {
    const int32_t begin = begins[e], end = begin + begins[e + 1];
    for (int32_t at = begin; at < end; at += kGroupRows) {
      const auto rows = static_cast<int32_t>(min(end - at, kGroupRows));
      groups[count++] = {static_cast<int32_t>(e), at, rows};
    }
    begins[e + 1] = end;
  }
  for (int64_t r = 0; r < ids.rows; ++r) {  // begins[id] becomes the place of id's next route.
    order[begins[*ids.row<int32_t>(r)]++] = static_cast<int32_t>(r);
  }
  return count;
}

template <typename Format>
struct ExpertCall {
  using Job = LinearJob<Format, RoutedRows>;
  const KernelArgs& args;
  ExpertScratch at;

  template <typename T>
  T* room(int64_t offset) const {
    return reinterpret_cast<T*>(args.scratch + offset);
  }

  // The job reads its matrix through `weight`, which must outlive it.
  Job job(const ExpertGroup& group, TensorView& weight) const {
    const TensorView &x = args.in[0], &bias = args.in[3], &out = args.out[0];
    const int64_t bytes = ceil_div(out.cols, kPanel) * Job::kPacked.panel_bytes(x.cols);
    weight = args.in[2];
    weight.data = static_cast<std::byte*>(weight.data) + group.expert * bytes;
    weight.rows = out.cols;
    const int64_t units = Format::kLayout.units(x.cols);
    const Parts tiles = cut_rows<Format>(group.rows);
    return {x,
            weight,
            out,
            bias.data == nullptr ? nullptr : bias.row<float>(0) + group.expert * out.cols,
            tiles,
            cut_depth<Format>(units, tiles.count),
            args.scratch + group.begin * units * Format::kLayout.row_bytes,
            room<RowValue>(at.values) + group.begin,
            {room<int32_t>(at.order) + group.begin, out.rows / x.rows}};
  }
};

template <typename Format>
const char* expert_linear(const KernelArgs& args) {
  const TensorView &x = args.in[0], &ids = args.in[1], &out = args.out[0];
  const int threads = args.parallel->threads();
  if (x.rows <= 0 || out.cols <= 0) return nullptr;
  const int64_t experts = args.attrs.expert().experts;
  const ExpertCall<Format> call = {
      args, expert_scratch(Format::kLayout, out.rows, x.cols, experts, threads)};
  auto* groups = call.template room<ExpertGroup>(call.at.groups);
  const int64_t count = group_routes(ids, experts, call.template room<int32_t>(call.at.order),
                                     call.template room<int32_t>(call.at.begins), groups);
  if (count < 0) return "an expert id is out of range";
  for_each(*args.parallel, count, [&](int64_t group) {
    [[maybe_unused]] typename Format::Guard guard;
    TensorView weight;
    const auto job = call.job(groups[group], weight);
    for (int64_t tile = 0; tile < job.tiles.count; ++tile) job.lay_out(tile);
  });

  const int64_t panels = ceil_div(out.cols, kPanel);
  const int64_t wanted = threads > 1 ? 1 + ceil_div(threads * kPiecesPerThread, count) : 1;
  const Parts columns = {panels, min(panels, wanted)};
  const int64_t tile_rows = min(out.rows, kGroupRows);
  for_each(*args.parallel, count * columns.count, [&](int64_t piece, int thread) {
    typename Format::Guard guard;
    TensorView weight;
    const auto job = call.job(groups[piece / columns.count], weight);
    const int64_t c = piece % columns.count;
    auto* own = call.template room<float>(call.at.sums + thread * linear_sum_bytes(tile_rows));
    for (int64_t panel = columns.begin(c); panel < columns.begin(c + 1); ++panel) {
      job.run_panel(panel * kPanel, 0, job.tiles.count, own, guard);
    }
  });
  return nullptr;
}

}  // namespace
}  // namespace lockstep::LOCKSTEP_ISA
