// SPDX-License-Identifier: Apache-2.0
// Llama 1 to 3; Mistral, a Llama with a window; Ministral 3, a Mistral whose queries are scaled by
// position; Seed-OSS, ERNIE 4.5 and Helium (both rotate neighbouring columns), and Arcee, whose MLP
// has no gate.
#include "models/blocks/llama.h"

#include "models/families/families.h"

namespace lockstep::families::llama {
namespace {

LanguageModel llama(Keys& keys) {
  Llama m(keys);
  m.attention.set_bias(keys.flag("attention_bias", false));
  m.mlp.bias = keys.flag("mlp_bias", false);
  read_layer_types(keys, m.attention.windows);
  return m.model();
}

LanguageModel mistral(Keys& keys) {
  Llama m(keys);
  m.attention.windows = windows_of_all(keys, m.sizes.layers, 4096);
  read_layer_types(keys, m.attention.windows);
  return m.model();
}

LanguageModel ministral3(Keys& keys) {
  keys.defaults(R"({"max_position_embeddings": 262144, "rope_parameters": {
      "type": "yarn", "rope_theta": 1000000.0, "factor": 16.0, "beta_fast": 32.0, "beta_slow": 1.0,
      "original_max_position_embeddings": 16384, "mscale_all_dim": 1.0, "mscale": 1.0,
      "llama_4_scaling_beta": 0.1}})");
  Llama m(keys, {.sizes = {.kv_heads = 8, .head_dim = 128},
                 .norm = read_rms_norm(keys, 1e-5),
                 .rope = {.scales_queries = true}});
  m.attention.windows = windows_of_all(keys, m.sizes.layers, 0);
  return m.model();
}

LanguageModel seed_oss(Keys& keys) {
  keys.rename("attention_bias", "use_qkv_bias");
  keys.only("attention_out_bias", false);
  Llama m(keys, {.sizes = {.kv_heads = 8, .head_dim = 128, .positions = 524288}});
  m.attention.qkv_bias = keys.flag("use_qkv_bias", true);
  m.mlp.bias = keys.flag("mlp_bias", false);
  return m.model();
}

LanguageModel ernie(Keys& keys) {
  Llama m(keys, {.sizes = {.kv_heads = 2, .head_dim = 128},
                 .norm = read_rms_norm(keys, 1e-5),
                 .tied = true,
                 .rope = {.interleaved = true}});
  keys.rename("use_bias", "attention_bias");  // It applies to every linear but the head.
  m.mlp.bias = keys.flag("attention_bias", false);
  m.attention.set_bias(m.mlp.bias);
  return m.model();
}

LanguageModel arcee(Keys& keys) {
  Llama m(keys, {.norm = read_rms_norm(keys, 1e-5), .activation = "relu2"});
  m.attention.set_bias(keys.flag("attention_bias", false));
  m.mlp.bias = keys.flag("mlp_bias", false);
  return m.model(nullptr, plain_mlp(m.mlp, "mlp.up_proj", "mlp.down_proj"));
}

LanguageModel helium(Keys& keys) {
  Llama m(keys, {.sizes = {.kv_heads = 20, .head_dim = 128, .positions = 4096},
                 .norm = read_rms_norm(keys, 1e-8),
                 .rope = {.theta = 100000, .interleaved = true}});
  m.attention.qkv_bias = keys.flag("attention_bias", false);  // o_proj never has a bias.
  m.mlp.bias = keys.flag("mlp_bias", false);
  return m.model();
}

constexpr Architecture kRows[] = {
    {"LlamaForCausalLM", llama},           {"MistralForCausalLM", mistral},
    {"Ministral3ForCausalLM", ministral3}, {"SeedOssForCausalLM", seed_oss},
    {"Ernie4_5ForCausalLM", ernie},        {"ArceeForCausalLM", arcee},
    {"HeliumForCausalLM", helium},
};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::llama
