// SPDX-License-Identifier: Apache-2.0
// Nemotron 3 and 4 and Minitron: Llama's attention, of each head half turns; layer norms, stored as
// the w of 1 + w; an MLP without a gate.
#include "models/blocks.h"
#include "models/families/families.h"

namespace lockstep::families::nemotron {
namespace {

Value mlp(Graph& g, const Config& c, Value x, int) {
  return plain_mlp(g, c, x, "mlp.up_proj", "mlp.down_proj");
}

void build_nemotron(Graph& g, const Config& c) { build_layers(g, c, {.mlp = mlp}); }

constexpr Architecture kRows[] = {
    {"NemotronForCausalLM",
     build_nemotron,
     {.layer_norm = true,
      .norm_eps = 1e-5,
      .norm_plus_one = true,
      .activation = "relu2",
      .partial_rotary = 0.5,
      .positions = 4096,
      .keys = {"attention_bias", "mlp_bias"},
      .names = {{{"norm_eps", "rms_norm_eps"},
                 {"rope_percent", "partial_rotary_factor"},
                 {"rope_percentage", "partial_rotary_factor"}}}}},
};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::nemotron
