// SPDX-License-Identifier: Apache-2.0
// Llama 1 to 3; Mistral, which is Llama with a window; Ministral 3, which is Mistral with queries
// scaled by their position; Seed-OSS, ERNIE 4.5 (neighbouring columns turn), and Arcee, whose MLP
// has no gate.
#include "models/blocks.h"
#include "models/config_keys.h"
#include "models/families/families.h"

namespace lockstep::families::llama {
namespace {

constexpr char kMinistral3Defaults[] = R"({"max_position_embeddings": 262144, "rope_parameters": {
    "type": "yarn", "rope_theta": 1000000.0, "factor": 16.0, "beta_fast": 32.0, "beta_slow": 1.0,
    "original_max_position_embeddings": 16384, "mscale_all_dim": 1.0, "mscale": 1.0,
    "llama_4_scaling_beta": 0.1}})";

Value arcee_mlp(Graph& g, const Config& c, Value x, int) {
  return plain_mlp(g, c, x, "mlp.up_proj", "mlp.down_proj");
}
void build_arcee(Graph& g, const Config& c) { build_layers(g, c, {.mlp = arcee_mlp}); }

absl::Status check_seed_oss(const Json& json) {
  const OnlyValue only[] = {{"attention_out_bias", false}};
  return check_only(json, only);
}

// use_bias is of every linear but the head.
absl::Status refine_ernie(const Json&, Config& c) {
  c.mlp_bias = c.output_bias;
  return absl::OkStatus();
}

constexpr Architecture kRows[] = {
    {"LlamaForCausalLM", build_llama, {.keys = {"attention_bias", "mlp_bias", "layer_types"}}},
    {"MistralForCausalLM",
     build_llama,
     {.window = WindowRule::kAllLayers,
      .default_window = 4096,
      .keys = {"sliding_window", "layer_types"}}},
    {"Ministral3ForCausalLM",
     build_llama,
     {.norm_eps = 1e-5,
      .kv_heads = 8,
      .head_dim = 128,
      .window = WindowRule::kAllLayers,
      .defaults = kMinistral3Defaults,
      .keys = {"sliding_window", "llama_4_scaling_beta"}}},
    {"SeedOssForCausalLM",
     build_llama,
     {.qkv_bias = true,
      .positions = 524288,
      .kv_heads = 8,
      .head_dim = 128,
      .keys = {"use_qkv_bias", "attention_out_bias", "mlp_bias"},
      .names = {{{"attention_bias", "use_qkv_bias"}}},
      .check = check_seed_oss}},
    {"Ernie4_5ForCausalLM",
     build_llama,
     {.tie_word_embeddings = true,
      .norm_eps = 1e-5,
      .rope_interleaved = true,
      .kv_heads = 2,
      .head_dim = 128,
      .keys = {"attention_bias"},
      .names = {{{"use_bias", "attention_bias"}}},
      .refine = refine_ernie}},
    {"ArceeForCausalLM",
     build_arcee,
     {.norm_eps = 1e-5, .activation = "relu2", .keys = {"attention_bias", "mlp_bias"}}},
};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::llama
