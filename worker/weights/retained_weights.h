// SPDX-License-Identifier: Apache-2.0
// Weights of a program that is over, still in memory. The next program of the same checkpoint, for
// fewer or more ranks, usually needs many of the same rows. The panels of these rows are copied,
// not read again.
#pragma once

#include <string>

#include "base/text_map.h"
#include "proto/program.pb.h"
#include "worker/kernel_choice/bindings.h"
#include "worker/weights/weight_panels.h"
#include "worker/weights/weights.h"

namespace lockstep {

struct RetainedWeights {
  std::string stamp;         // source_stamp() of their source.
  program::Program program;  // Only its weights are used.
  Bindings bindings;
  Weights weights;

  // True if another program needs exactly these weights, in this layout.
  bool serve_all(const program::Program& other, const Bindings& wanted) const;
};

// Panels by their contents: the rows of tensors that they were made of, and the packer.
class RetainedPanels {
 public:
  // `retained` must be in a CPU's memory, and outlives this object.
  explicit RetainedPanels(const RetainedWeights& retained);

  // The panel's bytes; null: `retained` does not have this panel.
  const std::byte* find(const program::Weight& weight, const KernelEntry* packer,
                        const Panel& panel) const;

 private:
  TextMap<std::string, const std::byte*> panels_;
};

}  // namespace lockstep
