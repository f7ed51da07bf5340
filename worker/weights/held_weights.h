// SPDX-License-Identifier: Apache-2.0
// Weights of a program that is over, still in memory. The next program of the same checkpoint, for
// fewer or more ranks, mostly wants many of the same rows: their panels are copied, not read again.
#pragma once

#include <string>
#include <unordered_map>

#include "proto/program.pb.h"
#include "worker/kernel_choice/bindings.h"
#include "worker/weights/weight_panels.h"
#include "worker/weights/weights.h"

namespace lockstep {

struct HeldWeights {
  std::string stamp;         // source_stamp() of their source.
  program::Program program;  // Of which only the weights count.
  Bindings bindings;
  Weights weights;

  // They are all that another program wants, and as it wants them.
  bool serve_all(const program::Program& other, const Bindings& wanted) const;
};

// By what the panels were made of: which rows of which tensors, for which packer.
class HeldPanels {
 public:
  // `held` outlives it: weights of a processor.
  explicit HeldPanels(const HeldWeights& held);

  // The panel's bytes; null: they are not held.
  const std::byte* find(const program::Weight& weight, const KernelEntry* packer,
                        const Panel& panel) const;

 private:
  std::unordered_map<std::string, const std::byte*> panels_;
};

}  // namespace lockstep
