// SPDX-License-Identifier: Apache-2.0
// StarCoder2: Llama's attention, layer norms, an MLP without a gate.
#include "models/starcoder2.h"

#include "base/status.h"
#include "models/blocks.h"

namespace lockstep {
namespace {

Value mlp(Graph& g, const Config& c, Value x, int) {
  return plain_mlp(g, c, x, "mlp.c_fc", "mlp.c_proj");
}

}  // namespace

void build_starcoder2(Graph& g, const Config& c) { build_layers(g, c, {.mlp = mlp}); }

absl::Status check_starcoder2(const Json& json) {
  for (const auto& [key, only] : {std::pair{"norm_type", "layer_norm"}, {"mlp_type", "default"}}) {
    ASSIGN_OR_RETURN(const std::string found, get_string(json, key, only));
    if (found == only) continue;
    return invalid_argument("{}: \"{}\" is not supported; supported: {}", key, printable(found),
                            only);
  }
  return absl::OkStatus();
}

absl::Status refine_starcoder2(const Json&, Config& c) {
  c.mlp_bias = c.output_bias;
  return absl::OkStatus();
}

}  // namespace lockstep
