// SPDX-License-Identifier: Apache-2.0
// Phi-3 to Phi-4: Llama's maths over fused matrices, with a window and a part of each head rotated
// where the config says so.
#include "models/phi3.h"

#include "base/status.h"
#include "models/blocks.h"

namespace lockstep {
namespace {

Value attention(Graph& g, const Config& c, Value x, int layer) {
  return stacked_attention(g, c, x, layer, "self_attn.qkv_proj", "self_attn.o_proj");
}

Value mlp(Graph& g, const Config& c, Value x, int) {
  return stacked_mlp(g, c, x, "mlp.gate_up_proj", "mlp.down_proj");
}

}  // namespace

void build_phi3(Graph& g, const Config& c) {
  build_layers(g, c, {.attention = attention, .mlp = mlp});
}

// This family's "yarn" and "su" are older names of longrope, whose frequencies depend on how long a
// sequence is.
absl::Status check_phi3(const Json& json) {
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (!json.contains(key) || !json[key].is_object()) continue;
    for (const char* kind : {"rope_type", "type"}) {
      if (!json[key].contains(kind) || json[key][kind] == "default") continue;
      return invalid_argument(
          "{}.{}: {} is not supported for Phi-3: the frequencies of longrope depend on a "
          "sequence's "
          "length; supported: default, as in the models of 4k positions",
          key, kind, describe(json[key][kind]));
    }
  }
  return absl::OkStatus();
}

}  // namespace lockstep
