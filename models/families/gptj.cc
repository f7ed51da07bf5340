// SPDX-License-Identifier: Apache-2.0
// GPT-J, and CodeGen and MOSS, which have its q, k and v in one matrix: one layer norm feeds
// attention and MLP; neighbouring columns turn.
#include "base/status.h"
#include "models/blocks.h"
#include "models/families/families.h"

namespace lockstep::families::gptj {
namespace {

constexpr int64_t kBlocks = 4;  // Of rows in the one matrix, in every published model.

Value gptj_attention(Graph& g, const Config& c, Value x, int layer) {
  return separate_attention(g, c, x, layer, "attn", "attn.out_proj");
}

// Each block has the q, the v and the k of a quarter of the heads.
Value blocked_attention(Graph& g, const Config& c, Value x, int layer) {
  const int64_t columns = heads(c).columns(), width = columns / kBlocks;
  const auto part = [&](const char* name, int64_t place, AxisSize out) {
    FusedPart rows{.name = name, .all_rows = 3 * columns, .rows = {}};
    for (int64_t block = 0; block < kBlocks; ++block) {
      const int64_t begin = (3 * block + place) * width;
      rows.rows.push_back({begin, begin + width});
    }
    return g.linear_part(x, "attn.qkv_proj", rows, out);
  };
  return turned_attention(g, c, part("q", 0, heads(c)), part("k", 2, kv_heads(c)),
                          part("v", 1, kv_heads(c)), layer, "attn.out_proj");
}

Value mlp(Graph& g, const Config& c, Value x, int) {
  return plain_mlp(g, c, x, "mlp.fc_in", "mlp.fc_out");
}

void build(Graph& g, const Config& c, OldBlock attention) {
  build_layers(g, c,
               {.attention = attention,
                .mlp = mlp,
                .embedding = "transformer.wte",
                .layers = "transformer.h",
                .attention_norm = "ln_1",
                .norm = "transformer.ln_f"});
}

void build_gptj(Graph& g, const Config& c) { build(g, c, gptj_attention); }

void build_codegen(Graph& g, const Config& c) { build(g, c, blocked_attention); }

absl::Status refine_codegen(const Json&, Config& c) {
  if (c.heads % kBlocks == 0) return absl::OkStatus();
  return invalid_argument("num_attention_heads: must be a multiple of {}, found {}", kBlocks,
                          c.heads);
}

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

constexpr Architecture kRows[] = {
    {"GPTJForCausalLM", build_gptj, gptj_family(nullptr)},
    {"CodeGenForCausalLM", build_codegen, gptj_family(refine_codegen)},
    {"MossForCausalLM", build_codegen, gptj_family(refine_codegen)},
};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::gptj
