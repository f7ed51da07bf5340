// SPDX-License-Identifier: Apache-2.0
// The table of architectures: a new model is a row here and a function that builds its graph.
#include "models/models.h"

#include <utility>

#include "base/file.h"
#include "models/baichuan.h"
#include "models/cohere.h"
#include "models/exaone4.h"
#include "models/falcon.h"
#include "models/gemma2.h"
#include "models/glm.h"
#include "models/gpt_neox.h"
#include "models/gptj.h"
#include "models/internlm.h"
#include "models/llama.h"
#include "models/mixtral.h"
#include "models/phi.h"
#include "models/phi3.h"
#include "models/qwen_moe.h"
#include "models/stablelm.h"
#include "models/starcoder2.h"

namespace lockstep {
namespace {

constexpr int64_t kMostConfigBytes = 16 << 20;

constexpr Family gptj_family(absl::Status (*refine)(const Json&, Config&)) {
  return {.mlp_bias = true,
          .head_bias = true,
          .layer_norm = true,
          .parallel = true,
          .parallel_norms = 1,
          .norm_eps = 1e-5,
          .activation = "gelu_new",
          .rope_interleaved = true,
          .ffn_per_hidden = 4,
          .keys = {"rotary_dim", "rotary", "n_ctx", "scale_attn_weights"},
          .names = {{{"n_embd", "hidden_size"},
                     {"n_layer", "num_hidden_layers"},
                     {"n_head", "num_attention_heads"},
                     {"n_positions", "max_position_embeddings"},
                     {"n_inner", "intermediate_size"},
                     {"activation_function", "hidden_act"},
                     {"layer_norm_epsilon", "rms_norm_eps"}}},
          .refine = refine};
}

constexpr Family kFalcon = {
    .tie_word_embeddings = true,
    .layer_norm = true,
    .norm_eps = 1e-5,
    .activation = "gelu",
    .ffn_per_hidden = 4,
    .positions = 2048,
    .keys = {"attention_bias", "alibi", "multi_query", "parallel_attn", "new_decoder_architecture",
             "num_ln_in_parallel_attn", "ff_factor"},
    .names = {{{"bias", "attention_bias"},
               {"layer_norm_epsilon", "rms_norm_eps"},
               {"num_kv_heads", "num_key_value_heads"},
               {"n_head_kv", "num_key_value_heads"},
               {"n_head", "num_attention_heads"},
               {"n_layer", "num_hidden_layers"},
               {"ffn_hidden_size", "intermediate_size"},
               {"activation", "hidden_act"}}},
    .check = check_falcon,
    .refine = refine_falcon,
};

// Keys that its code reads and that change nothing here are in the list too.
constexpr Family kChatGlm = {
    .norm_eps = 1e-5,
    .partial_rotary = 0.5,
    .rope_interleaved = true,
    .keys = {"use_qkv_bias", "rope_ratio", "rmsnorm", "post_layer_norm", "original_rope",
             "multi_query_attention", "apply_query_key_layer_scaling", "attention_softmax_in_fp32",
             "bias_dropout_fusion", "quantization_bit"},
    .names = {{{"padded_vocab_size", "vocab_size"},
               {"num_layers", "num_hidden_layers"},
               {"ffn_hidden_size", "intermediate_size"},
               {"kv_channels", "head_dim"},
               {"multi_query_group_num", "num_key_value_heads"},
               {"seq_length", "max_position_embeddings"},
               {"layernorm_epsilon", "rms_norm_eps"},
               {"add_qkv_bias", "use_qkv_bias"}}},
    .check = check_chatglm,
    .refine = refine_chatglm,
};

constexpr Architecture kArchitectures[] = {
    {"LlamaForCausalLM", build_llama, {.keys = {"attention_bias", "mlp_bias", "layer_types"}}},
    {"MistralForCausalLM",
     build_llama,
     {.window = WindowRule::kAllLayers,
      .default_window = 4096,
      .keys = {"sliding_window", "layer_types"}}},
    {"Qwen2ForCausalLM",
     build_llama,
     {.qkv_bias = true,
      .window = WindowRule::kByLayer,
      .default_window = 4096,
      .max_window_layers = 28,
      .keys = {"use_sliding_window", "sliding_window", "max_window_layers", "layer_types"}}},
    {"Qwen3ForCausalLM",
     build_llama,
     {.qk_norm = true,
      .head_dim = 128,
      .window = WindowRule::kByLayer,
      .default_window = 4096,
      .max_window_layers = 28,
      .keys = {"attention_bias", "use_sliding_window", "sliding_window", "max_window_layers",
               "layer_types"}}},
    {"MixtralForCausalLM",
     build_mixtral,
     {.window = WindowRule::kAllLayers,
      .default_window = 0,
      .keys = {"sliding_window"},
      .experts = {.count_key = "num_local_experts",
                  .count = 8,
                  .chosen = 2,
                  .always_renormalised = true}}},
    {"Qwen2MoeForCausalLM",
     build_qwen_moe,
     {.qkv_bias = true,
      .window = WindowRule::kByLayer,
      .default_window = 4096,
      .max_window_layers = 28,
      .keys = {"use_qkv_bias", "use_sliding_window", "sliding_window", "max_window_layers",
               "layer_types"},
      .names = {{{"qkv_bias", "use_qkv_bias"}}},
      .experts = {.count_key = "num_experts",
                  .count = 60,
                  .chosen = 4,
                  .size = 1408,
                  .shared_size = 5632,
                  .by_layer = true}}},
    {"Qwen3MoeForCausalLM",
     build_qwen_moe,
     {.qk_norm = true,
      .window = WindowRule::kByLayer,
      .default_window = 4096,
      .max_window_layers = 28,
      .keys = {"attention_bias", "use_sliding_window", "sliding_window", "max_window_layers",
               "layer_types"},
      .experts =
          {.count_key = "num_experts", .count = 128, .chosen = 8, .size = 768, .by_layer = true}}},
    {"BaiChuanForCausalLM", build_baichuan, {.check = check_baichuan}},
    {"BaichuanForCausalLM", build_baichuan, {.check = check_baichuan}},
    {"InternLMForCausalLM",
     build_llama,
     {.attention_bias = true,
      .keys = {"attention_bias", "rotary"},
      .names = {{{"bias", "attention_bias"}}},
      .check = check_internlm}},
    {"InternLM2ForCausalLM",
     build_internlm2,
     {.attention_bias = true, .keys = {"attention_bias"}, .names = {{{"bias", "attention_bias"}}}}},
    {"Phi3ForCausalLM",
     build_phi3,
     {.norm_eps = 1e-5,
      .partial_rotary = 1,
      .window = WindowRule::kAllLayers,
      .keys = {"sliding_window"},
      .check = check_phi3}},
    {"GraniteForCausalLM",
     build_llama,
     {.keys = {"attention_bias", "mlp_bias", "embedding_multiplier", "attention_multiplier",
               "residual_multiplier", "logits_scaling"}}},
    {"GemmaForCausalLM",
     build_llama,
     {.tie_word_embeddings = true,
      .norm_plus_one = true,
      .embedding_by_sqrt_hidden = true,
      .activation = "gelu_pytorch_tanh",
      .kv_heads = 16,
      .head_dim = 256,
      .keys = {"attention_bias"},
      .names = {{{"hidden_activation", "hidden_act"}}}}},
    {"Gemma2ForCausalLM",
     build_gemma2,
     {.tie_word_embeddings = true,
      .norm_plus_one = true,
      .embedding_by_sqrt_hidden = true,
      .activation = "gelu_pytorch_tanh",
      .query_pre_attn_scalar = 256,
      .attention_cap = 50,
      .logits_cap = 30,
      .kv_heads = 4,
      .head_dim = 256,
      .window = WindowRule::kPattern,
      .default_window = 4096,
      .full_every = 2,
      .keys = {"attention_bias", "query_pre_attn_scalar", "attn_logit_softcapping",
               "final_logit_softcapping", "sliding_window", "layer_types"},
      .names = {{{"hidden_activation", "hidden_act"}}}}},
    {"Gemma3ForCausalLM",
     build_gemma2,
     {.tie_word_embeddings = true,
      .qk_norm = true,
      .norm_plus_one = true,
      .embedding_by_sqrt_hidden = true,
      .activation = "gelu_pytorch_tanh",
      .query_pre_attn_scalar = 256,
      .rope_theta = 1000000,
      .window_rope_theta = 10000,
      .kv_heads = 4,
      .head_dim = 256,
      .window = WindowRule::kPattern,
      .default_window = 4096,
      .full_every = 6,
      .keys = {"attention_bias", "query_pre_attn_scalar", "attn_logit_softcapping",
               "final_logit_softcapping", "sliding_window", "sliding_window_pattern",
               "rope_local_base_freq", "layer_types"},
      .names = {{{"hidden_activation", "hidden_act"},
                 {"_sliding_window_pattern", "sliding_window_pattern"}}}}},
    {"SmolLM3ForCausalLM",
     build_llama,
     {.tie_word_embeddings = true,
      .rope_theta = 2000000,
      .kv_heads = 4,
      .window = WindowRule::kNoRope,
      .no_rope_every = 4,
      .keys = {"attention_bias", "mlp_bias", "no_rope_layers", "no_rope_layer_interval",
               "use_sliding_window", "sliding_window", "layer_types"}}},
    {"Glm4ForCausalLM",
     build_glm4,
     {.norm_eps = 1e-5,
      .partial_rotary = 0.5,
      .rope_interleaved = true,
      .kv_heads = 2,
      .head_dim = 128,
      .keys = {"use_qkv_bias"},
      .names = {{{"attention_bias", "use_qkv_bias"}}}}},
    {"ChatGLMModel", build_chatglm, kChatGlm},
    {"ChatGLMForConditionalGeneration", build_chatglm, kChatGlm},
    {"CohereForCausalLM",
     build_llama,
     {.tie_word_embeddings = true,
      .layer_norm = true,
      .norm_bias = false,
      .parallel = true,
      .parallel_norms = 1,
      .norm_eps = 1e-5,
      .rope_theta = 500000,
      .rope_interleaved = true,
      .logit_scale = 0.0625,
      .keys = {"attention_bias", "logit_scale"},
      .names = {{{"layer_norm_eps", "rms_norm_eps"}}}}},
    {"Cohere2ForCausalLM",
     build_llama,
     {.tie_word_embeddings = true,
      .layer_norm = true,
      .norm_bias = false,
      .parallel = true,
      .parallel_norms = 1,
      .norm_eps = 1e-5,
      .rope_interleaved = true,
      .window = WindowRule::kPattern,
      .default_window = 4096,
      .full_every = 4,
      .only_windows_turn = true,
      .logit_scale = 0.0625,
      .keys = {"attention_bias", "logit_scale", "sliding_window", "sliding_window_pattern",
               "layer_types", "layer_switch", "position_embedding_type",
               "order_of_interleaved_layers", "rotary_pct", "use_embedding_sharing",
               "use_gated_activation", "use_parallel_block", "use_parallel_embedding"},
      .names = {{{"layer_norm_eps", "rms_norm_eps"}, {"layer_switch", "sliding_window_pattern"}}},
      .check = check_cohere}},
    {"Exaone4ForCausalLM",
     build_exaone4,
     {.qk_norm = true,
      .norm_eps = 1e-5,
      .kv_heads = 32,
      .window = WindowRule::kPattern,
      .default_window = 4096,
      .full_every = 4,
      .only_windows_turn = true,
      .keys = {"sliding_window", "sliding_window_pattern", "layer_types"}}},
    {"Starcoder2ForCausalLM",
     build_starcoder2,
     {.tie_word_embeddings = true,
      .attention_bias = true,
      .layer_norm = true,
      .norm_eps = 1e-5,
      .activation = "gelu_pytorch_tanh",
      .kv_heads = 2,
      .window = WindowRule::kAllLayers,
      .keys = {"attention_bias", "sliding_window", "norm_type", "mlp_type"},
      .names = {{{"norm_epsilon", "rms_norm_eps"}, {"use_bias", "attention_bias"}}},
      .check = check_starcoder2,
      .refine = refine_starcoder2}},
    {"GPTNeoXForCausalLM",
     build_gpt_neox,
     {.attention_bias = true,
      .mlp_bias = true,
      .layer_norm = true,
      .parallel = true,
      .parallel_norms = 2,
      .norm_eps = 1e-5,
      .activation = "gelu",
      .partial_rotary = 0.25,
      .keys = {"attention_bias", "use_parallel_residual"},
      .names = {{{"layer_norm_eps", "rms_norm_eps"},
                 {"rotary_pct", "partial_rotary_factor"},
                 {"rotary_emb_base", "rope_theta"}}}}},
    {"GPTJForCausalLM", build_gptj, gptj_family(nullptr)},
    {"CodeGenForCausalLM", build_codegen, gptj_family(refine_codegen)},
    {"MossForCausalLM", build_codegen, gptj_family(refine_codegen)},
    {"PhiForCausalLM",
     build_phi,
     {.attention_bias = true,
      .mlp_bias = true,
      .head_bias = true,
      .layer_norm = true,
      .parallel = true,
      .parallel_norms = 1,
      .norm_eps = 1e-5,
      .activation = "gelu_new",
      .partial_rotary = 0.5,
      .names = {{{"layer_norm_eps", "rms_norm_eps"}}}}},
    {"StableLmForCausalLM",
     build_llama,
     {.layer_norm = true,
      .parallel_norms = 1,
      .norm_eps = 1e-5,
      .partial_rotary = 0.25,
      .keys = {"use_qkv_bias", "use_parallel_residual"},
      .names = {{{"layer_norm_eps", "rms_norm_eps"}}}}},
    {"StableLMEpochForCausalLM",
     build_llama,
     {.layer_norm = true,
      .norm_eps = 1e-5,
      .partial_rotary = 0.25,
      .keys = {"use_qkv_bias", "rotary_scaling_factor"},
      .names = {{{"norm_eps", "rms_norm_eps"},
                 {"rope_pct", "partial_rotary_factor"},
                 {"num_heads", "num_attention_heads"}}},
      .check = check_stablelm_epoch}},
    {"FalconForCausalLM", build_falcon, kFalcon},
    {"RWForCausalLM", build_falcon, kFalcon},
};

absl::StatusOr<const Architecture*> find_architecture(const Json& json) {
  std::string supported;
  for (const Architecture& known : kArchitectures) {
    supported += supported.empty() ? known.name : fmt::format(", {}", known.name);
  }
  const Json found =
      json.is_object() && json.contains("architectures") ? json["architectures"] : Json();
  if (!found.is_array() || found.size() != 1 || !found[0].is_string()) {
    return invalid_argument("architectures: wanted a list of one name of {}, found {}", supported,
                            describe(found));
  }
  const std::string name = found[0].get<std::string>();
  for (const Architecture& known : kArchitectures) {
    if (known.name == name) return &known;
  }
  return invalid_argument("architectures: \"{}\" is not supported; supported: {}", printable(name),
                          supported);
}

}  // namespace

std::span<const Architecture> architectures() { return kArchitectures; }

absl::StatusOr<ModelDescription> describe_model(const std::filesystem::path& folder,
                                                const std::vector<std::string>& ignore_config_keys,
                                                int64_t max_context_override) {
  const std::filesystem::path path = folder / "config.json";
  ASSIGN_OR_RETURN(const std::string text, read_file(path, kMostConfigBytes));
  ASSIGN_OR_RETURN(Json json, parse_json(text, path.string()));
  RETURN_IF_ERROR(ignore_keys(json, ignore_config_keys));
  const absl::StatusOr<const Architecture*> architecture = find_architecture(json);
  if (!architecture.ok()) {
    return invalid_argument("{}: {}", path.string(), message_of(architecture.status()));
  }
  ModelDescription model;
  ASSIGN_OR_RETURN(model.config, parse_config(json, path.string(), (*architecture)->name,
                                              (*architecture)->family, max_context_override));
  const std::filesystem::path name = std::filesystem::absolute(folder).lexically_normal();
  model.graph.model = name.has_filename() ? name.filename() : name.parent_path().filename();
  (*architecture)->build(model.graph, model.config);
  return model;
}

}  // namespace lockstep
