// SPDX-License-Identifier: Apache-2.0
// Shortens the listing of a graph or a program: equal layers are shown once.
#pragma once

#include <string>
#include <string_view>

namespace lockstep {

// Returns the listing with one line in place of each run of layers that equal the layer before the
// run: "layers 2-21: as layer 1". Equal layers may differ in their number, in indices and in places
// in memory. A layer begins at the first line that names it ("model.layers.2.mlp"): lines without a
// name belong to the layer above them. Pure.
std::string fold_layers(std::string_view listing);

}  // namespace lockstep
