// SPDX-License-Identifier: Apache-2.0
// OPT: learned positions, of which the first has row 2; norms before the blocks, or after them
// (350m, which also has narrow embeddings, projected both ways).
#include <utility>

#include "base/status.h"
#include "models/blocks.h"
#include "models/config_keys.h"
#include "models/families/families.h"

namespace lockstep::families::opt {
namespace {

constexpr int64_t kFirstPosition = 2;

Value attention(Graph& g, const Config& c, Value x, int layer) {
  return separate_attention(g, c, x, layer, "self_attn", "self_attn.out_proj");
}

Value mlp(Graph& g, const Config& c, Value x, int) { return plain_mlp(g, c, x, "fc1", "fc2"); }

void build_opt(Graph& g, const Config& c) {
  Layers model{.attention = attention,
               .mlp = mlp,
               .embedding = "model.decoder.embed_tokens",
               .positions = "model.decoder.embed_positions",
               .project_in = "model.decoder.project_in",
               .project_out = "model.decoder.project_out",
               .layers = "model.decoder.layers",
               .attention_norm = "self_attn_layer_norm",
               .mlp_norm = "final_layer_norm",
               .norm = "model.decoder.final_layer_norm"};
  if (c.end_norms) {
    model.attention_end_norm = std::exchange(model.attention_norm, nullptr);
    model.mlp_end_norm = std::exchange(model.mlp_norm, nullptr);
    model.norm = nullptr;
  }
  build_layers(g, c, model);
}

absl::Status check_opt(const Json& json) {
  const OnlyValue only[] = {{"layer_norm_elementwise_affine", true}};
  return check_only(json, only);
}

absl::Status refine_opt(const Json& json, Config& c) {
  ASSIGN_OR_RETURN(const bool before, get_bool(json, "do_layer_norm_before", true));
  ASSIGN_OR_RETURN(c.embedding_width,
                   get_count(json, "word_embed_proj_dim", kMostColumns, c.hidden_size));
  c.end_norms = !before;
  c.mlp_bias = c.output_bias;
  c.position_rows = c.max_position_embeddings + kFirstPosition;
  c.position_offset = kFirstPosition;
  return absl::OkStatus();
}

constexpr Architecture kRows[] = {
    {"OPTForCausalLM",
     build_opt,
     {.tie_word_embeddings = true,
      .attention_bias = true,
      .layer_norm = true,
      .norm_eps = 1e-5,
      .activation = "relu",
      .positions = 2048,
      .keys = {"attention_bias", "do_layer_norm_before", "layer_norm_elementwise_affine",
               "word_embed_proj_dim"},
      .names = {{{"ffn_dim", "intermediate_size"},
                 {"activation_function", "hidden_act"},
                 {"enable_bias", "attention_bias"}}},
      .check = check_opt,
      .refine = refine_opt}},
};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::opt
