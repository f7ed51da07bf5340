// SPDX-License-Identifier: Apache-2.0
// A program's instructions, grouped by layer.
#pragma once

#include <string>
#include <vector>

#include "proto/program.pb.h"

namespace lockstep {

struct LayerGroup {
  std::string name;  // "before the layers", "layer 3", "after the layers".
  int first = 0;     // Instructions [first, end).
  int end = 0;
};

// A layer begins at the first instruction that makes a value, or reads a weight, with the layer's
// number in its name. Instructions without a number belong to the layer before them; those after
// the last layer are the group "after the layers". The groups cover all instructions in their
// order. Two groups may have the same number.
std::vector<LayerGroup> layer_groups(const program::Program& program);

}  // namespace lockstep
