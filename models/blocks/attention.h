// SPDX-License-Identifier: Apache-2.0
// Attention with keys and values in pages.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "models/blocks/rope.h"
#include "models/blocks/sizes.h"
#include "models/graph/graph.h"

namespace lockstep {

// One half of a layer: takes normed x [Rows, hidden], returns what is added to the residual stream.
using Block = std::function<Value(Graph& graph, Value x, int layer)>;

struct Attention {
  int64_t hidden = 1;
  int64_t heads = 1;
  int64_t kv_heads = 1;
  int64_t head_dim = 1;
  bool qkv_bias = false;
  bool out_bias = false;
  QkNorm qk_norm = {};  // The norms of q and k; `norm` has their other settings.
  Norm norm = {};
  float scale = 1;
  float cap = 0;                      // The cap of scores; 0: none.
  float qkv_clamp = 0;                // q, k and v are clamped to +-qkv_clamp; 0: not clamped.
  std::vector<float> slopes = {};     // [heads]: the slopes of ALiBi.
  std::string sinks = "";             // The name of a layer's sinks tensor; "": none.
  std::vector<int64_t> windows = {};  // [layers]: how many positions a query sees; 0: all.
  std::vector<int64_t> chunks = {};   // [layers]: positions per chunk; a query sees only its own.
  std::vector<bool> rotates = {};     // [layers]: whether q and k are rotated.
  Ropes ropes = {};

  // Every layer sees all positions and rotates q and k; the scale is head_dim^-0.5.
  Attention(const Sizes& sizes, const Norm& norm);
  void set_bias(bool bias) { qkv_bias = out_bias = bias; }
  // Normalizes q and k before rotation. use_qk_norm and its other names must be true or missing.
  void norm_heads(Keys& keys, const QkNorm& norms = kHeadNorms);
  // The same, but only if use_qk_norm is true.
  void norm_heads_if_asked(Keys& keys, const QkNorm& norms = kHeadNorms);
  void rotate_nothing() { rotates.assign(rotates.size(), false); }
  // If there are windows, layers without one do not rotate.
  void rotate_with_windows(Keys& keys);
  AxisSize q_axis() const { return {Axis::kHeads, heads, head_dim}; }
  AxisSize kv_axis() const { return {Axis::kKvHeads, kv_heads, head_dim, heads}; }
};

// Uses Llama's names: self_attn.q_proj and so on.
Block llama_attention(const Attention& attention);
// q, k and v are separate linears, `scope`.q_proj and so on; `out` is the output projection.
Block separate_attention(const Attention& attention, const std::string& scope,
                         const std::string& out);
// q, k and v are stacked vertically in the one matrix `qkv`.
Block stacked_attention(const Attention& attention, const std::string& qkv, const std::string& out);
// In the one matrix `qkv`, each KV head has consecutive rows: first those of its query heads, then
// those of its k, then those of its v.
Block grouped_attention(const Attention& attention, const std::string& qkv, const std::string& out);

// --- Parts for a family's own attention.
struct Qkv {
  Value q, k, v;
};
Qkv separate_qkv(Graph& graph, const Attention& attention, Value x, const std::string& scope);
// Rotates q and k if the layer rotates: by the table for layers with a window, or by the other one.
// Scales q by its position, if configured. Then computes attention and the output projection `out`.
Value rotated_attention(Graph& graph, const Attention& attention, Qkv qkv, int layer,
                        const std::string& out);
// The result refers to the slopes of `attention`, which must outlive the result.
AttentionAttrs attention_attrs(const Attention& attention, int layer);
// A part of a matrix. The matrix consists of `count` runs of `run` rows; the part has `size` rows
// of each run, from the run's row `begin` on.
FusedPart rows_of_runs(const char* name, int64_t count, int64_t run, int64_t begin, int64_t size);

// x^-0.5, for the scale of scores.
float inverse_root(float x);

// The slopes [heads] of attention with linear biases (Press et al., 2022): a head's scores change
// by its slope for each position of distance to the key. If `heads` is a power of two: 2^(-8 i /
// heads), i = 1 to heads. Else: the slopes for p heads, where p is the next lower power of two, and
// then every second slope for 2 p heads.
std::vector<float> alibi_slopes(int64_t heads);

// --- Windows by layer: how many positions a query sees; 0: all.
using Windows = std::vector<int64_t>;
// Reads sliding_window; 0: none. `fallback` applies to a missing key, not to null.
int64_t read_window(Keys& keys, int64_t fallback);
// The same window in every layer.
Windows windows_of_all(Keys& keys, int layers, int64_t fallback);
// If use_sliding_window is true, the layers that layer_types names have a window. Without
// layer_types, all layers from max_window_layers (default: `first`) on have one.
Windows windows_by_layer(Keys& keys, int layers, int64_t fallback, int64_t first);
// The layers that layer_types names have a window; without layer_types, all layers except every
// full_every-th. If `reads_pattern`, sliding_window_pattern replaces full_every: it is a number, or
// letters that are repeated, one per layer (L has a window, G has none).
Windows windows_by_pattern(Keys& keys, int layers, int64_t fallback, int64_t full_every,
                           bool reads_pattern = false);
// The layers that rotate: those with a 1 in no_rope_layers or, without that list, all except every
// no_rope_layer_interval-th.
std::vector<bool> rotates_by_layer(Keys& keys, int layers, int64_t fallback);
// Reads layer_types, the kind of each layer. If `window` is given, layer_types decides which layers
// have that window; else it must agree with `windows`.
void read_layer_types(Keys& keys, Windows& windows, std::optional<int64_t> window = std::nullopt);
// Reads layer_types of a model in which layers of the type `type` are recurrent, and all others
// have attention.
void read_recurrent_types(Keys& keys, std::vector<bool>& recurs, const char* type);

}  // namespace lockstep
