// SPDX-License-Identifier: Apache-2.0
// RWKV 7 (Goose, https://arxiv.org/abs/2503.14456), with the names of the published files or those
// of flash-linear-attention.
#include <cmath>
#include <string>
#include <vector>

#include "models/blocks/rwkv.h"
#include "models/families/families.h"

namespace lockstep::families::rwkv7 {
namespace {

// Names in the checkpoint. A narrow product has two small matrices, "w1" and "w2", and the bias
// "w0", stored as [in, out], or, with `lora`, the linears "w_lora.lora.0" and "w_lora.lora.2".
struct Names {
  const char* attention;
  const char* r;
  const char* k;
  const char* v;
  const char* out;
  const char* norm;
  bool lora;
};
constexpr Names kNames = {"att", "receptance", "key", "value", "output", "ln_x", false};
constexpr Names kFlaNames = {"attn", "r_proj", "k_proj", "v_proj", "o_proj", "g_norm", true};

struct Rwkv7 {
  Names names;
  RwkvHeads heads;
  // Columns between the two small matrices of a narrow product, by its result.
  int64_t decay_rank, rate_rank, gate_rank, value_rank;
};

// A vector over the heads' columns, with its stored shape.
Value vector_of(Graph& g, const Rwkv7& m, const std::string& name, AxisSize axis) {
  using Shape = std::vector<int64_t>;
  return g.broadcast(name, axis,
                     m.names.lora ? Shape{axis.columns()} : Shape{1, 1, axis.columns()});
}

// out(f(in(x))), with `between` columns after `in`.
Value low_rank(Graph& g, const Rwkv7& m, Value x, const std::string& name, int64_t between,
               Function f, bool bias) {
  const AxisSize narrow = {Axis::kNone, between, 1}, out = m.heads.axis();
  const std::string lora = name + "_lora.lora.";
  Value inner = m.names.lora ? g.linear(x, lora + "0", narrow)
                             : linear_from_transposed(g, x, name + "1", narrow);
  if (f != Function::kNone) inner = g.map(inner, f);
  if (m.names.lora) return g.linear(inner, lora + "2", out, bias);
  const Value y = linear_from_transposed(g, inner, name + "2", out);
  return bias ? g.biased(y, name + "0", {1, 1, m.heads.hidden}) : y;
}

// Keys of length 1, along which the state forgets.
Value unit_keys(Graph& g, const RwkvHeads& h, Value k) {
  const auto dim = static_cast<float>(h.dim);
  const Value normed = g.head_norm(k, "", {.eps = 1e-24f / dim, .head_dim = h.dim});
  return g.map(normed, Function::kScale, 1 / std::sqrt(dim));
}

// From the second layer on, values are mixed with those of the first layer, `first_v`.
Value time_mix(Graph& g, const Rwkv7& m, Value x, int layer, Value& first_v) {
  const RwkvHeads& h = m.heads;
  const Scope scope(g, m.names.attention);
  const TokenShift rows = token_shift(g, x);
  const auto product = [&](Value mixed, const char* name, int64_t between, Function f) {
    return low_rank(g, m, mixed, name, between, f, /*bias=*/true);
  };
  const Value r = g.linear(mix_before(g, rows, "x_r"), m.names.r, h.axis());
  const Value k = g.linear(mix_before(g, rows, "x_k"), m.names.k, h.axis());
  const Value x_v = mix_before(g, rows, "x_v");
  Value v = g.linear(x_v, m.names.v, h.axis());
  if (layer == 0) {
    first_v = v;
  } else {
    const Value share = product(x_v, "v", m.value_rank, Function::kNone);
    v = g.lerp(v, first_v, g.map(share, Function::kSigmoid));
  }
  const Value log = product(mix_before(g, rows, "x_w"), "w", m.decay_rank, Function::kTanh);
  // Decay is e^(-e^-0.5 * sigmoid(log)): a row keeps at least 0.545 of the state.
  const Value decay =
      g.map(g.map(g.map(log, Function::kSigmoid), Function::kScale, -0.60653066f), Function::kExp);
  const Value rate = g.map(product(mix_before(g, rows, "x_a"), "a", m.rate_rank, Function::kNone),
                           Function::kSigmoid);
  const Value unit = unit_keys(g, h, g.mul(k, vector_of(g, m, "k_k", h.axis())));
  const Value share_of_rate = vector_of(g, m, "k_a", h.axis());
  const Value key = g.lerp(k, g.mul(k, rate), share_of_rate);
  const LowRank forgets = {.a = g.map(unit, Function::kScale, -1), .b = g.mul(unit, rate)};
  const Value y =
      g.recurrence(r, key, v, decay, forgets,
                   {.heads = h.count, .key_heads = h.count, .k_dim = h.dim, .v_dim = h.dim});
  const Value own = g.head_dot(r, key, g.broadcast("r_k", h.axis(), {h.count, h.dim}), v);
  const Value gate = low_rank(g, m, mix_before(g, rows, "x_g"), "g", m.gate_rank,
                              Function::kSigmoid, /*bias=*/false);
  const Value sum = g.add(norm_of_heads(g, h, y, m.names.norm), own);
  return g.linear(g.mul(sum, gate), m.names.out, hidden_axis(h.hidden));
}

Value mlp(Graph& g, const Rwkv7& m, const Mlp& half, Value x) {
  const Scope scope(g, "ffn");
  const TokenShift rows = token_shift(g, x);
  const Value weight = vector_of(g, m, "x_k", hidden_axis(half.hidden));
  const Value key = g.linear(g.lerp(rows.x, rows.before, weight), "key", ffn_axis(half.width));
  return g.linear(g.map(key, half.activation), "value", hidden_axis(half.hidden));
}

Rwkv7 read_rwkv7(Keys& keys, const Names& names, Llama& m) {
  Rwkv7 model = {.names = names,
                 .heads = read_rwkv_heads(keys, m),
                 .decay_rank = keys.count("decay_low_rank_dim", kMaxWidth),
                 .rate_rank = keys.count("a_low_rank_dim", kMaxWidth),
                 .gate_rank = keys.count("gate_low_rank_dim", kMaxWidth),
                 .value_rank = 0};
  keys.ignore("v_low_rank_dim");
  if (m.sizes.layers > 1) model.value_rank = keys.count("v_low_rank_dim", kMaxWidth);
  return model;
}

LanguageModel model_of(const Rwkv7& model, const Llama& m) {
  return rwkv_model(
      m,
      [=, first_v = Value()](Graph& g, Value x, int layer) mutable {
        return time_mix(g, model, x, layer, first_v);
      },
      [=, half = m.mlp](Graph& g, Value x, int) { return mlp(g, model, half, x); });
}

LanguageModel rwkv7(Keys& keys) {
  keys.rename("layer_norm_epsilon", "rms_norm_eps");
  keys.rename("head_size", "head_dim");
  keys.default_from_tensor("decay_low_rank_dim", "blocks.0.att.w1", 1);
  keys.default_from_tensor("a_low_rank_dim", "blocks.0.att.a1", 1);
  keys.default_from_tensor("v_low_rank_dim", "blocks.1.att.v1", 1);
  keys.default_from_tensor("gate_low_rank_dim", "blocks.0.att.g1", 1);
  keys.default_from_tensor("intermediate_size", "blocks.0.ffn.key.weight", 0);
  Llama m = read_rwkv(keys, {.head_dim = 64, .positions = 4096});
  const Rwkv7 model = read_rwkv7(keys, kNames, m);
  return model_of(model, m);
}

// value_dim is one width, or one per layer.
void check_value_width(Keys& keys, int64_t hidden) {
  const Json& found = keys.json("value_dim");
  for (const Json& width : found.is_array() ? found : Json::array({found})) {
    if (width.is_null() || width == hidden) continue;
    keys.fail("value_dim", "must be hidden_size ({}) in every layer, found {}", hidden,
              describe(width));
  }
}

LanguageModel fla_rwkv7(Keys& keys) {
  const std::string attention = "model.layers.0.attn.";
  keys.rename("norm_eps", "rms_norm_eps");
  keys.default_from_tensor("decay_low_rank_dim", attention + "w_lora.lora.0.weight", 0);
  keys.default_from_tensor("a_low_rank_dim", attention + "a_lora.lora.0.weight", 0);
  keys.default_from_tensor("v_low_rank_dim", "model.layers.1.attn.v_lora.lora.0.weight", 0);
  keys.default_from_tensor("gate_low_rank_dim", attention + "g_lora.lora.0.weight", 0);
  keys.default_from_tensor("intermediate_size", "model.layers.0.ffn.key.weight", 0);
  keys.only("norm_first norm_bias", true);
  keys.ignore(
      "num_heads hidden_ratio attn_mode fuse_norm fuse_cross_entropy fuse_linear_cross_entropy "
      "use_l2warp");
  Llama m = read_rwkv(keys, {.head_dim = 64, .positions = 2048});
  Rwkv7 model = read_rwkv7(keys, kFlaNames, m);
  model.heads.norm_eps = static_cast<float>(model.heads.dim) * m.norm.eps;
  check_value_width(keys, m.sizes.hidden);
  LanguageModel d = model_of(model, m);
  d.embedding = "model.embeddings";
  d.embedding_norm = "model.layers.0.pre_norm";
  d.layers = "model.layers";
  d.attention_norm = "attn_norm";
  d.mlp_norm = "ffn_norm";
  d.norm = "model.norm";
  d.head = "lm_head";
  return d;
}

constexpr Architecture kRows[] = {
    {"Rwkv7ForCausalLM", rwkv7},
    {"RWKV7ForCausalLM", fla_rwkv7},
};

}  // namespace

Architectures rows() { return kRows; }

}  // namespace lockstep::families::rwkv7
