// SPDX-License-Identifier: Apache-2.0
#include "models/latent_blocks.h"

namespace lockstep {
namespace {

constexpr float kLatentNormEps = 1e-6f;  // Whatever rms_norm_eps is.

// Columns of the rows that queries, keys and values are made from.
AxisSize low_rank(int64_t columns) { return {Axis::kLatent, columns, 1}; }

// Of every query head, the columns that do not turn and those that do.
struct Queries {
  Value nope, turned;
};

Queries queries(Graph& g, const Config& c, Value x) {
  const LatentConfig& l = c.latent;
  std::string name = "q_proj";
  if (l.q_width > 0) {
    x = g.linear(x, "q_a_proj", low_rank(l.q_width), c.output_bias);
    x = g.rms_norm(x, "q_a_layernorm", kLatentNormEps);
    name = "q_b_proj";
  }
  const int64_t dim = l.nope_dim + c.head_dim;
  const auto part = [&](const char* part_name, int64_t begin, int64_t size) {
    return g.linear_part(x, name, rows_of_runs(part_name, c.heads, dim, begin, size),
                         {Axis::kHeads, c.heads, size});
  };
  return {.nope = part("nope", 0, l.nope_dim),
          .turned = g.rope(part("rope", l.nope_dim, c.head_dim), c.rope)};
}

// The one key that all heads share. Its few columns that turn are computed by every worker.
Value latent_key(Graph& g, const Config& c, Value x) {
  const int64_t width = c.latent.kv_width, all = width + c.head_dim;
  const auto part = [&](const char* name, int64_t begin, AxisSize out) {
    return g.linear_part(x, "kv_a_proj_with_mqa", rows_of_runs(name, 1, all, begin, out.count), out,
                         c.output_bias);
  };
  const Value latent =
      g.rms_norm(part("latent", 0, low_rank(width)), "kv_a_layernorm", kLatentNormEps);
  const Value turned = g.rope(part("rope", width, {Axis::kNone, c.head_dim, 1}), c.rope);
  return g.join_heads(latent, turned, {Axis::kKvHeads, 1, all, c.heads});
}

}  // namespace

Value old_latent_attention(Graph& g, const Config& c, Value x, int layer) {
  const Scope scope(g, "self_attn");
  const LatentConfig& l = c.latent;
  const int64_t key_dim = l.kv_width + c.head_dim;
  HeadLinearSpec matrix = {
      .heads = c.heads, .in_dim = l.nope_dim, .out_dim = l.kv_width, .rows = l.nope_dim + l.v_dim};
  const Queries q = queries(g, c, x);
  const Value absorbed = g.head_linear(q.nope, "kv_b_proj", matrix);
  Value query = g.join_heads(absorbed, q.turned, {Axis::kHeads, c.heads, key_dim});
  if (c.query_scales.length > 0) query = g.position_scale(query, c.query_scales);
  const Value key = latent_key(g, c, x);
  const Value sums = g.attention(query, key, key,
                                 {.head_dim = key_dim,
                                  .v_dim = l.kv_width,
                                  .values_in_keys = true,
                                  .heads = c.heads,
                                  .kv_heads = 1,
                                  .scale = c.attention_scale,
                                  .layer = layer});
  matrix.in_dim = l.kv_width;
  matrix.out_dim = l.v_dim;
  matrix.transposed = true;
  matrix.row_begin = l.nope_dim;
  return g.linear(g.head_linear(sums, "kv_b_proj", matrix), "o_proj", hidden(c), c.output_bias);
}

}  // namespace lockstep
