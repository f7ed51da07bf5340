// SPDX-License-Identifier: Apache-2.0
// StarCoder2: Llama's attention, layer norms, an MLP without a gate.
#include <utility>

#include "base/status.h"
#include "models/blocks.h"
#include "models/config_keys.h"
#include "models/families/families.h"

namespace lockstep::families::starcoder2 {
namespace {

Value mlp(Graph& g, const Config& c, Value x, int) {
  return plain_mlp(g, c, x, "mlp.c_fc", "mlp.c_proj");
}

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

constexpr Architecture kRows[] = {
    {"Starcoder2ForCausalLM",
     build_starcoder2,
     {.tie_word_embeddings = true,
      .attention_bias = true,
      .layer_norm = true,
      .norm_eps = 1e-5,
      .activation = "gelu_pytorch_tanh",
      .kv_heads = 2,
      .window = WindowRule::kAllLayers,
      // The last two are left of an older class: the reference does not read them.
      .keys = {"attention_bias", "sliding_window", "norm_type", "mlp_type", "activation_function",
               "layer_norm_epsilon"},
      .names = {{{"norm_epsilon", "rms_norm_eps"}, {"use_bias", "attention_bias"}}},
      .check = check_starcoder2,
      .refine = refine_starcoder2}},
};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::starcoder2
