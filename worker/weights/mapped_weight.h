// SPDX-License-Identifier: Apache-2.0
// Weights that stay in the checkpoint's file: kernels read their rows through a mapping, a page at
// a time as tokens ask for them.
#pragma once

#include <vector>

#include "base/system/mapped_file.h"
#include "checkpoint/weight_source.h"
#include "proto/program.pb.h"
#include "worker/kernel_choice/bindings.h"
#include "worker/kernels/kernel.h"

namespace lockstep {

struct MappedWeight {
  int weight = 0;   // Of the program.
  TensorView view;  // Into the file; rows may be further apart than they are long.
  MappedFile file;
};

// The embeddings that the file has just as their kernel reads them. They are no longer `used` in
// the bindings: no memory is planned for them and nothing is loaded. An embedding that has to be in
// memory after all is told in one line of the log.
std::vector<MappedWeight> map_embeddings(const program::Program& program,
                                         const WeightSource& source, Bindings* bindings);

}  // namespace lockstep
