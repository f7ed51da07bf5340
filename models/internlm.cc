// SPDX-License-Identifier: Apache-2.0
// InternLM2: Llama's maths under names of its own; in the one matrix of q, k and v the rows of each
// KV head are together: its query heads, then its k, then its v.
#include "models/internlm.h"

#include "base/status.h"
#include "models/blocks.h"

namespace lockstep {
namespace {

Value attention(Graph& g, const Config& c, Value x, int layer) {
  const int64_t dim = c.head_dim, q_rows = c.heads / c.kv_heads * dim, group = q_rows + 2 * dim;
  FusedPart q{.name = "q", .all_rows = c.kv_heads * group, .rows = {}};
  FusedPart k{.name = "k", .all_rows = q.all_rows, .rows = {}};
  FusedPart v{.name = "v", .all_rows = q.all_rows, .rows = {}};
  for (int64_t begin = 0; begin < q.all_rows; begin += group) {
    const int64_t k_begin = begin + q_rows, v_begin = k_begin + dim;
    q.rows.push_back({begin, k_begin});
    k.rows.push_back({k_begin, v_begin});
    v.rows.push_back({v_begin, v_begin + dim});
  }
  const auto part = [&](const FusedPart& rows, AxisSize out) {
    return g.linear_part(x, "attention.wqkv", rows, out, c.qkv_bias);
  };
  return turned_attention(g, c, part(q, heads(c)), part(k, kv_heads(c)), part(v, kv_heads(c)),
                          layer, "attention.wo");
}

Value mlp(Graph& g, const Config& c, Value x, int) {
  const Value gate = g.map(g.linear(x, "feed_forward.w1", ffn(c)), c.activation);
  const Value up = g.linear(x, "feed_forward.w3", ffn(c));
  return g.linear(g.mul(gate, up), "feed_forward.w2", hidden(c));
}

}  // namespace

void build_internlm2(Graph& g, const Config& c) {
  build_layers(g, c,
               {.attention = attention,
                .mlp = mlp,
                .embedding = "model.tok_embeddings",
                .attention_norm = "attention_norm",
                .mlp_norm = "ffn_norm",
                .head = "output"});
}

// {"type": "dynamic", "base": 10000}: dynamic of factor 1 changes nothing within the positions that
// the model has, and a context is never longer.
absl::Status check_internlm(const Json& json) {
  if (!json.contains("rotary") || json["rotary"].is_null()) return absl::OkStatus();
  const Json& rotary = json["rotary"];
  const auto is = [&](const char* key, const Json& value) {
    return rotary.is_object() && rotary.contains(key) && rotary[key] == value;
  };
  const bool plain = is("type", "origin") || is("type", "dynamic");
  const bool stretched = rotary.is_object() && rotary.contains("scaling_factor");
  if (plain && is("base", 10000) && (!stretched || is("scaling_factor", 1))) {
    return absl::OkStatus();
  }
  return invalid_argument(
      "rotary: {} is not supported; supported: type origin or dynamic, base 10000, without a "
      "scaling_factor",
      printable(rotary.dump()));
}

}  // namespace lockstep
