// SPDX-License-Identifier: Apache-2.0
// OPT with its norms in front of the blocks: learned positions, of which the first has row 2.
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
  build_layers(g, c,
               {.attention = attention,
                .mlp = mlp,
                .embedding = "model.decoder.embed_tokens",
                .positions = "model.decoder.embed_positions",
                .layers = "model.decoder.layers",
                .attention_norm = "self_attn_layer_norm",
                .mlp_norm = "final_layer_norm",
                .norm = "model.decoder.final_layer_norm"});
}

absl::Status check_opt(const Json& json) {
  for (const char* key : {"do_layer_norm_before", "layer_norm_elementwise_affine"}) {
    ASSIGN_OR_RETURN(const bool found, get_bool(json, key, true));
    if (!found) return invalid_argument("{}: false is not supported; supported: true", key);
  }
  ASSIGN_OR_RETURN(const int64_t hidden, get_count(json, "hidden_size", kMostColumns));
  ASSIGN_OR_RETURN(const int64_t width,
                   get_count(json, "word_embed_proj_dim", kMostColumns, hidden));
  if (width == hidden) return absl::OkStatus();
  return invalid_argument("word_embed_proj_dim: wanted hidden_size ({}), found {}", hidden, width);
}

absl::Status refine_opt(const Json&, Config& c) {
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
