// SPDX-License-Identifier: Apache-2.0
// Weights that stay in the checkpoint's file: kernels read their rows through a mapping, which
// loads a page when a token needs it.
#pragma once

#include <vector>

#include "base/system/mapped_file.h"
#include "checkpoint/weight_source.h"
#include "proto/program.pb.h"
#include "worker/kernel_choice/bindings.h"
#include "worker/kernels/kernel.h"

namespace lockstep {

struct MappedWeight {
  int weight = 0;   // Index in the program.
  TensorView view;  // Into the file; there may be gaps between rows.
  MappedFile file;
};

// Maps the embeddings that the file stores exactly as their kernel reads them. Clears their `used`
// in the bindings, so that no memory is planned for them and nothing is loaded. An embedding that
// cannot be mapped is loaded into memory, and a log line says so.
std::vector<MappedWeight> map_embeddings(const program::Program& program,
                                         const WeightSource& source, Bindings* bindings);

}  // namespace lockstep
