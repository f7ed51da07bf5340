// SPDX-License-Identifier: Apache-2.0
// linear with the loops of tile_nest.h.
#pragma once

#include "worker/kernels/cpu/tiles/tile_nest.h"

namespace lockstep::LOCKSTEP_ISA {
namespace {

template <typename Format>
NestCuts cuts_of(const KernelArgs& args) {
  const TensorView &x = args.in[0], &out = args.out[0];
  return cut_nest(Format::kLayout.units(x.cols), x.rows, out.cols, args.parallel->threads());
}

template <typename Format, TileOrder kOrder>
const char* linear_nest(const KernelArgs& args, const NestCuts& cuts) {
  const TensorView &x = args.in[0], &out = args.out[0];
  if (x.rows <= 0 || out.cols <= 0) return nullptr;
  const int64_t units = Format::kLayout.units(x.cols);
  std::byte* values = args.scratch + cuts.blocks * units * kNestStep;
  const LinearJob<Format> job = {x,
                                 args.in[1],
                                 out,
                                 static_cast<const float*>(args.in[2].data),
                                 {x.rows, cuts.blocks, kNestRows},
                                 {units, cuts.parts},
                                 args.scratch,
                                 reinterpret_cast<RowValue*>(values)};
  using Nest = TileNest<Format, kOrder>;
  const Nest nest(job, cuts, values + linear_row_value_bytes(x.rows));
  for_each(*args.parallel, cuts.blocks, [&](int64_t block) {
    [[maybe_unused]] typename Format::Guard guard;
    nest.lay_out(block);
  });
  for_each(*args.parallel, nest.pieces(), [&](int64_t piece, int thread) {
    typename Nest::Guard guard;
    nest.run(piece, thread, guard);
  });
  return nullptr;
}

}  // namespace
}  // namespace lockstep::LOCKSTEP_ISA
