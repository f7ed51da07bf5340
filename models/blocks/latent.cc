// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/latent.h"

#include <string>

#include "base/numbers/math.h"
#include "operators/limits.h"

namespace lockstep {
namespace {

constexpr float kLatentNormEps = 1e-6f;  // rms_norm_eps does not change it.

// YaRN multiplies scores by the square of 0.1 * mscale_all_dim * log(factor) + 1. read_rope()
// checks the other members of the object that has mscale_all_dim.
double yarn_scale(Keys& keys) {
  const bool newer = keys.json("rope_parameters").is_object();
  double root = 1;
  keys.inside(newer ? "rope_parameters" : "rope_scaling", [&](Keys& members) {
    members.ignore("*");
    const double mscale = members.number("mscale_all_dim", 0, 1e3, 0);
    if (mscale == 0) return;
    const double factor = members.number("factor", 1e-6, 1e6);
    if (factor > 1) root = 0.1 * mscale * exact_log(factor) + 1;
  });
  return root * root;
}

// The columns of the rows from which queries, keys and values are computed.
AxisSize low_rank(int64_t columns) { return {Axis::kLatent, columns, 1}; }

// The columns of all query heads: those that are not rotated, and those that are.
struct Queries {
  Value nope, rotated;
};

Queries queries(Graph& g, const Attention& a, const Latent& l, Value x) {
  std::string name = "q_proj";
  if (l.q_width > 0) {
    x = g.linear(x, "q_a_proj", low_rank(l.q_width), a.qkv_bias);
    x = g.rms_norm(x, "q_a_layernorm", kLatentNormEps);
    name = "q_b_proj";
  }
  const auto part = [&](const char* part_name, int64_t begin, int64_t size) {
    return g.linear_part(x, name,
                         rows_of_runs(part_name, a.heads, l.nope_dim + a.head_dim, begin, size),
                         {Axis::kHeads, a.heads, size});
  };
  return {.nope = part("nope", 0, l.nope_dim),
          .rotated = g.rope(part("rope", l.nope_dim, a.head_dim), a.ropes.all)};
}

// The one key that all heads share. Every worker computes the key's few rotated columns.
Value latent_key(Graph& g, const Attention& a, const Latent& l, Value x) {
  const int64_t all = l.kv_width + a.head_dim;
  const auto part = [&](const char* name, int64_t begin, AxisSize out) {
    return g.linear_part(x, "kv_a_proj_with_mqa", rows_of_runs(name, 1, all, begin, out.count), out,
                         a.qkv_bias);
  };
  const Value latent =
      g.rms_norm(part("latent", 0, low_rank(l.kv_width)), "kv_a_layernorm", kLatentNormEps);
  const Value rotated = g.rope(part("rope", l.kv_width, {Axis::kNone, a.head_dim, 1}), a.ropes.all);
  return g.join_heads(latent, rotated, {Axis::kKvHeads, 1, all, a.heads});
}

}  // namespace

Latent read_latent(Keys& keys, Attention& a) {
  Latent latent;
  const bool direct = !keys.has("q_lora_rank") && !keys.is_missing("q_lora_rank");  // It is null.
  if (!direct) latent.q_width = keys.count("q_lora_rank", kMaxWidth);
  latent.kv_width = keys.count("kv_lora_rank", kMaxStateDim - a.head_dim);
  latent.nope_dim = keys.count("qk_nope_head_dim", kMaxStateDim);
  latent.v_dim = keys.count("v_head_dim", kMaxStateDim);
  const int64_t q_dim = latent.nope_dim + a.head_dim;
  const int64_t stated = keys.count("qk_head_dim", kMaxWidth, q_dim);
  if (stated != q_dim) {
    keys.fail("qk_head_dim", "must be qk_nope_head_dim + qk_rope_head_dim, {}, found {}", q_dim,
              stated);
  }
  a.scale = static_cast<float>(exact_pow(static_cast<double>(q_dim), -0.5) * yarn_scale(keys));
  return latent;
}

Block latent_attention(const Attention& a, const Latent& l) {
  return [=](Graph& g, Value x, int layer) {
    const Scope scope(g, "self_attn");
    const int64_t key_dim = l.kv_width + a.head_dim;
    HeadLinearSpec matrix = {.heads = a.heads,
                             .in_dim = l.nope_dim,
                             .out_dim = l.kv_width,
                             .rows = l.nope_dim + l.v_dim};
    const Queries q = queries(g, a, l, x);
    const Value absorbed = g.head_linear(q.nope, "kv_b_proj", matrix);
    Value query = g.join_heads(absorbed, q.rotated, {Axis::kHeads, a.heads, key_dim});
    const PositionScales& scales = a.ropes.query_scales;
    if (scales.length > 0) query = g.position_scale(query, scales);
    const Value key = latent_key(g, a, l, x);
    const Value sums = g.attention(query, key, key,
                                   {.heads = a.heads,
                                    .kv_heads = 1,
                                    .head_dim = key_dim,
                                    .v_dim = l.kv_width,
                                    .scale = a.scale,
                                    .state = layer,
                                    .values_in_keys = true});
    matrix.in_dim = l.kv_width;
    matrix.out_dim = l.v_dim;
    matrix.transposed = true;
    matrix.row_begin = l.nope_dim;
    return g.linear(g.head_linear(sums, "kv_b_proj", matrix), "o_proj", hidden_axis(a.hidden),
                    a.out_bias);
  };
}

}  // namespace lockstep
