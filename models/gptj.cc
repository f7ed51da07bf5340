// SPDX-License-Identifier: Apache-2.0
// GPT-J, and CodeGen and MOSS, which have its q, k and v in one matrix: one layer norm feeds
// attention and MLP; neighbouring columns turn.
#include "models/gptj.h"

#include "base/status.h"
#include "models/blocks.h"

namespace lockstep {
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

void build(Graph& g, const Config& c, Block attention) {
  build_layers(g, c,
               {.attention = attention,
                .mlp = mlp,
                .embedding = "transformer.wte",
                .layers = "transformer.h",
                .attention_norm = "ln_1",
                .norm = "transformer.ln_f"});
}

}  // namespace

void build_gptj(Graph& g, const Config& c) { build(g, c, gptj_attention); }

void build_codegen(Graph& g, const Config& c) { build(g, c, blocked_attention); }

absl::Status refine_codegen(const Json&, Config& c) {
  if (c.heads % kBlocks == 0) return absl::OkStatus();
  return invalid_argument("num_attention_heads: wanted a multiple of {}, found {}", kBlocks,
                          c.heads);
}

}  // namespace lockstep
