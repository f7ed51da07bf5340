// SPDX-License-Identifier: Apache-2.0
// The instructions of a program by the layer that they are of.
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

// A layer begins at the first instruction that makes a value, or reads a weight, with its number in
// the name; what names none belongs to the layer before it, behind the last layer to none. All
// instructions, in their order. A layer's number may come again.
std::vector<LayerGroup> layer_groups(const program::Program& program);

}  // namespace lockstep
