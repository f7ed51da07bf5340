// SPDX-License-Identifier: Apache-2.0
#include "models/blocks/attention.h"

#include <algorithm>
#include <bit>

#include "base/numbers/math.h"

namespace lockstep {

Attention::Attention(const Sizes& sizes, const Norm& norm_of_qk)
    : hidden(sizes.hidden),
      heads(sizes.heads),
      kv_heads(sizes.kv_heads),
      head_dim(sizes.head_dim),
      norm(norm_of_qk),
      scale(inverse_root(static_cast<float>(sizes.head_dim))),
      windows(static_cast<size_t>(sizes.layers)),
      rotates(static_cast<size_t>(sizes.layers), true) {}

void Attention::norm_heads(Keys& keys, const QkNorm& norms) {
  keys.only("use_qk_norm qk_layernorm use_qk_layernorm", true);
  qk_norm = norms;
}

void Attention::norm_heads_if_asked(Keys& keys, const QkNorm& norms) {
  keys.only("qk_layernorm use_qk_layernorm", true);
  if (keys.flag("use_qk_norm", false)) qk_norm = norms;
}

void Attention::rotate_with_windows(Keys& keys) {
  if (!keys.has("sliding_window") && !keys.is_missing("sliding_window")) return;
  for (size_t i = 0; i < rotates.size(); ++i) rotates[i] = windows[i] > 0;
}

AttentionAttrs attention_attrs(const Attention& a, int layer) {
  return {.heads = a.heads,
          .kv_heads = a.kv_heads,
          .head_dim = a.head_dim,
          .scale = a.scale,
          .state = layer,
          .window = a.windows[layer],
          .chunk = a.chunks.empty() ? 0 : a.chunks[layer],
          .cap = a.cap,
          .slopes = {a.slopes.data(), static_cast<int64_t>(a.slopes.size())}};
}

Qkv separate_qkv(Graph& g, const Attention& a, Value x, const std::string& scope) {
  return {.q = g.linear(x, scope + ".q_proj", a.q_axis(), a.qkv_bias),
          .k = g.linear(x, scope + ".k_proj", a.kv_axis(), a.qkv_bias),
          .v = g.linear(x, scope + ".v_proj", a.kv_axis(), a.qkv_bias)};
}

Value rotated_attention(Graph& g, const Attention& a, Qkv qkv, int layer, const std::string& out) {
  auto [q, k, v] = qkv;
  for (Value* x : {&q, &k, &v}) {
    if (a.qkv_clamp > 0) *x = g.map(*x, Function::kClamp, a.qkv_clamp);
  }
  if (a.rotates[layer]) {
    const Rope& rope = a.windows[layer] > 0 ? a.ropes.window : a.ropes.all;
    q = g.rope(q, rope);
    k = g.rope(k, rope);
    if (a.ropes.second.head_dim > 0) {
      q = g.rope(q, a.ropes.second);
      k = g.rope(k, a.ropes.second);
    }
  }
  if (a.ropes.query_scales.length > 0) q = g.position_scale(q, a.ropes.query_scales);
  return g.linear(g.attention(q, k, v, attention_attrs(a, layer), a.sinks), out,
                  hidden_axis(a.hidden), a.out_bias);
}

namespace {

// Applies the norm of q or k.
Value qk_norm(Graph& g, const Attention& a, Value x, const std::string& name) {
  switch (a.qk_norm.over) {
    case QkNorm::Over::kNothing:
      break;
    case QkNorm::Over::kAllHeads:
      return g.rms_norm(x, name, a.norm.eps, a.norm.plus);
    case QkNorm::Over::kHead:
      return g.head_norm(x, name,
                         {.eps = a.norm.eps,
                          .head_dim = a.head_dim,
                          .plus = a.norm.plus,
                          .centred = a.qk_norm.centred,
                          .bias = a.qk_norm.bias,
                          .by_head = a.qk_norm.by_head});
  }
  return x;
}

}  // namespace

Block separate_attention(const Attention& a, const std::string& scope, const std::string& out) {
  return [=](Graph& g, Value x, int layer) {
    Qkv qkv = separate_qkv(g, a, x, scope);
    qkv.q = qk_norm(g, a, qkv.q, scope + "." + a.qk_norm.q);
    qkv.k = qk_norm(g, a, qkv.k, scope + "." + a.qk_norm.k);
    return rotated_attention(g, a, qkv, layer, out);
  };
}

Block llama_attention(const Attention& a) {
  return separate_attention(a, "self_attn", "self_attn.o_proj");
}

FusedPart rows_of_runs(const char* name, int64_t count, int64_t run, int64_t begin, int64_t size) {
  FusedPart part{.name = name, .all_rows = count * run, .rows = {}};
  for (int64_t i = 0; i < count; ++i) {
    part.rows.push_back({i * run + begin, i * run + begin + size});
  }
  return part;
}

Block stacked_attention(const Attention& a, const std::string& qkv, const std::string& out) {
  return [=](Graph& g, Value x, int layer) {
    const int64_t q_end = a.q_axis().columns(), k_end = q_end + a.kv_axis().columns();
    const auto part = [&](const char* name, int64_t begin, AxisSize axis) {
      const int64_t rows = k_end + a.kv_axis().columns();
      return g.linear_part(x, qkv, rows_of_runs(name, 1, rows, begin, axis.columns()), axis,
                           a.qkv_bias);
    };
    const Value q = part("q", 0, a.q_axis()), k = part("k", q_end, a.kv_axis());
    return rotated_attention(g, a, {q, k, part("v", k_end, a.kv_axis())}, layer, out);
  };
}

Block grouped_attention(const Attention& a, const std::string& qkv, const std::string& out) {
  return [=](Graph& g, Value x, int layer) {
    const int64_t dim = a.head_dim, q_rows = a.heads / a.kv_heads * dim;
    const auto part = [&](const char* name, int64_t begin, int64_t size, AxisSize axis) {
      const FusedPart rows = rows_of_runs(name, a.kv_heads, q_rows + 2 * dim, begin, size);
      return g.linear_part(x, qkv, rows, axis, a.qkv_bias);
    };
    // The nodes are in the order v, k, q.
    const Value v = part("v", q_rows + dim, dim, a.kv_axis());
    const Value k = part("k", q_rows, dim, a.kv_axis());
    return rotated_attention(g, a, {part("q", 0, q_rows, a.q_axis()), k, v}, layer, out);
  };
}

namespace {

// Slope i of `heads` slopes; i counts from 1.
float slope(int64_t i, int64_t heads) {
  return static_cast<float>(
      exact_pow(2, -8.0 * static_cast<double>(i) / static_cast<double>(heads)));
}

}  // namespace

float inverse_root(float x) { return static_cast<float>(exact_pow(double{x}, -0.5)); }

std::vector<float> alibi_slopes(int64_t heads) {
  const auto below = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(heads)));
  std::vector<float> slopes;
  for (int64_t i = 1; i <= below; ++i) slopes.push_back(slope(i, below));
  for (int64_t i = 0; i < heads - below; ++i) slopes.push_back(slope(2 * i + 1, 2 * below));
  return slopes;
}

int64_t read_window(Keys& keys, int64_t fallback) {
  if (!keys.has("sliding_window") && !keys.is_missing("sliding_window")) return 0;
  if (!keys.has("sliding_window") && fallback == 0) return 0;
  return keys.count("sliding_window", kMaxPositions, fallback);
}

Windows windows_of_all(Keys& keys, int layers, int64_t fallback) {
  return Windows(static_cast<size_t>(layers), read_window(keys, fallback));
}

Windows windows_by_layer(Keys& keys, int layers, int64_t fallback, int64_t first) {
  Windows windows(static_cast<size_t>(layers));
  keys.ignore("sliding_window max_window_layers");
  const bool used = keys.flag("use_sliding_window", false);
  const int64_t window = used ? read_window(keys, fallback) : 0;
  if (window > 0) {
    first = keys.integer("max_window_layers", INT64_MIN, INT64_MAX, first);
    for (int64_t i = std::max<int64_t>(first, 0); i < layers; ++i) windows[i] = window;
  }
  // If sliding_window is null, no layer has a window, except those that layer_types names: they
  // have the default window.
  const int64_t named = keys.has("sliding_window") ? window : fallback;
  read_layer_types(keys, windows, used ? std::optional(named) : std::nullopt);
  return windows;
}

namespace {

// "LLG" if every third layer has no window.
std::string every(int64_t full) { return std::string(static_cast<size_t>(full - 1), 'L') + "G"; }

std::string read_pattern(Keys& keys, int64_t full) {
  const Json& given = keys.json("sliding_window_pattern");
  if (!given.is_string()) return every(keys.count("sliding_window_pattern", 1024, full));
  const std::string pattern = given.get<std::string>();
  const bool right = pattern.find_first_not_of("LG") == std::string::npos;
  if (right && !pattern.empty() && pattern.size() <= 1024) return pattern;
  keys.fail("sliding_window_pattern", "must be a number or letters L and G, found {}",
            describe(given));
  return every(full);
}

}  // namespace

Windows windows_by_pattern(Keys& keys, int layers, int64_t fallback, int64_t full_every,
                           bool reads_pattern) {
  Windows windows(static_cast<size_t>(layers), read_window(keys, fallback));
  const int64_t named = keys.has("sliding_window") ? windows[0] : fallback;
  if (reads_pattern) keys.ignore("sliding_window_pattern");
  if (windows[0] > 0) {
    const std::string pattern = reads_pattern ? read_pattern(keys, full_every) : every(full_every);
    for (size_t i = 0; i < windows.size(); ++i) {
      if (pattern[i % pattern.size()] == 'G') windows[i] = 0;
    }
  }
  read_layer_types(keys, windows, named);
  return windows;
}

std::vector<bool> rotates_by_layer(Keys& keys, int layers, int64_t fallback) {
  std::vector<bool> rotates(static_cast<size_t>(layers));
  const int64_t every = keys.count("no_rope_layer_interval", 1024, fallback);
  for (int64_t i = 0; i < layers; ++i) rotates[i] = (i + 1) % every != 0;
  const Json& given = keys.json("no_rope_layers");
  if (given.is_null() || given == Json::array()) return rotates;
  if (!given.is_array() || given.size() < rotates.size()) {
    keys.fail("no_rope_layers", "must be a list of {} layers, found {}", layers,
              given.is_array() ? std::to_string(given.size()) : describe(given));
    return rotates;
  }
  for (size_t i = 0; i < rotates.size(); ++i) {
    rotates[i] = given[i] == 1;
    if (rotates[i] || given[i] == 0) continue;
    keys.fail(fmt::format("no_rope_layers[{}]", i), "must be 0 or 1, found {}", describe(given[i]));
  }
  return rotates;
}

void read_layer_types(Keys& keys, Windows& windows, std::optional<int64_t> window) {
  const Json types = keys.list("layer_types", windows.size());
  for (size_t i = 0; i < types.size(); ++i) {
    const bool full = types[i] == "full_attention" || types[i] == "attention";
    const std::string key = fmt::format("layer_types[{}]", i);
    if (!full && types[i] != "sliding_attention") {
      keys.fail(key, "{} is not supported; supported: full_attention, sliding_attention",
                describe(types[i]));
    } else if (window.has_value()) {
      windows[i] = full ? 0 : *window;
    } else if (full != (windows[i] == 0)) {
      keys.fail(key, "{} contradicts the layer's window of {}", describe(types[i]), windows[i]);
    }
  }
}

void read_recurrent_types(Keys& keys, std::vector<bool>& recurs, const char* type) {
  const Json types = keys.list("layer_types", recurs.size());
  for (size_t i = 0; i < types.size(); ++i) {
    recurs[i] = types[i] == type || types[i] == "linear_attention";
    if (recurs[i] || types[i] == "full_attention" || types[i] == "attention") continue;
    keys.fail(fmt::format("layer_types[{}]", i),
              "{} is not supported; supported: full_attention, {}", describe(types[i]), type);
  }
}

}  // namespace lockstep
