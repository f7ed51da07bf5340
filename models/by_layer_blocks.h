// SPDX-License-Identifier: Apache-2.0
// What Gemma 4's layers are made of: what differs by their kind (with a window or without), what
// they share, and what each has for itself.
#pragma once

#include "models/blocks.h"

namespace lockstep {

// The config as this layer sees it: sizes of heads by its kind, and of the MLP.
Config config_of_layer(const Config& config, int layer);

// The last layer of each kind that appended keys and values, and these: without a window, with one.
struct KeptPages {
  struct Kind {
    int layer = 0;
    Value k, v;
  };
  Kind kinds[2];
};

// Norms within heads of q, k and v, that of v without a weight. Layers from first_sharing on make
// no keys and values, and read those that are kept.
Value attention_by_kind(Graph& graph, const Config& config, Value x, int layer, KeptPages& kept);

// The MLP of the layer's x, which is not normed yet, and, where the config has experts, those
// beside it, with norms of their own. Experts are chosen by the layer's x.
Value mlp_beside_experts(Graph& graph, const Config& config, Value x, int layer);

// [Rows, layers * width]: for each layer a second embedding of the token, and a projection of the
// first one, x, normed by layer.
Value embeddings_by_layer(Graph& graph, const Config& config, Value x);

// x + norm(projection(activation(gate(x)) * the layer's columns of by_layer)).
Value add_by_layer(Graph& graph, const Config& config, Value x, Value by_layer, int layer);

}  // namespace lockstep
