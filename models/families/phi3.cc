// SPDX-License-Identifier: Apache-2.0
// Phi-3 to Phi-4: Llama's maths over fused matrices, with a window and a part of each head rotated
// where the config says so.
#include "base/status.h"
#include "models/blocks.h"
#include "models/families/families.h"

namespace lockstep::families::phi3 {
namespace {

Value attention(Graph& g, const Config& c, Value x, int layer) {
  return stacked_attention(g, c, x, layer, "self_attn.qkv_proj", "self_attn.o_proj");
}

Value mlp(Graph& g, const Config& c, Value x, int) {
  return stacked_mlp(g, c, x, "mlp.gate_up_proj", "mlp.down_proj");
}

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

constexpr Architecture kRows[] = {
    {"Phi3ForCausalLM",
     build_phi3,
     {.norm_eps = 1e-5,
      .partial_rotary = 1,
      .window = WindowRule::kAllLayers,
      .keys = {"sliding_window"},
      .check = check_phi3}},
};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::phi3
