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
#include "models/graph.h"

namespace lockstep {

// One half of a layer: normed x [Rows, hidden] -> what is added to the residual stream.
using Block = std::function<Value(Graph& graph, Value x, int layer)>;

struct Attention {
  int64_t hidden = 1;
  int64_t heads = 1;
  int64_t kv_heads = 1;
  int64_t head_dim = 1;
  bool qkv_bias = false;
  bool out_bias = false;
  QkNorm qk_norm = {};  // They compute as this norm does:
  Norm norm = {};
  float scale = 1;
  float cap = 0;                   // Scores are capped by it; 0: they are not.
  float qkv_clamp = 0;             // q, k and v are brought within -qkv_clamp to qkv_clamp; 0: not.
  std::vector<float> slopes = {};  // [heads], of alibi.
  std::string sinks = "";          // The tensor of sinks in a layer; "": none.
  std::vector<int64_t> windows = {};  // [layers]: 0, or how many positions a query sees.
  std::vector<int64_t> chunks =
      {};                        // [layers], of runs of positions that see each other, or empty.
  std::vector<bool> turns = {};  // [layers]: whether q and k are rotated.
  Ropes ropes = {};

  // Every layer sees all positions and turns; the scale is head_dim^-0.5.
  Attention(const Sizes& sizes, const Norm& norm);
  void set_bias(bool bias) { qkv_bias = out_bias = bias; }
  // Norms of q and k before they turn; some files say so.
  void norm_heads(Keys& keys, const QkNorm& norms = kHeadNorms);
  void norm_heads_if_asked(Keys& keys, const QkNorm& norms = kHeadNorms);  // By use_qk_norm.
  void turn_nothing() { turns.assign(turns.size(), false); }
  // If there are windows, layers without one turn nothing.
  void turn_with_windows(Keys& keys);
  AxisSize q_axis() const { return {Axis::kHeads, heads, head_dim}; }
  AxisSize kv_axis() const { return {Axis::kKvHeads, kv_heads, head_dim, heads}; }
};

// With Llama's names: self_attn.q_proj and so on.
Block llama_attention(const Attention& attention);
// q, k and v each a linear, `scope`.q_proj and so on; `out` is the output projection.
Block separate_attention(const Attention& attention, const std::string& scope,
                         const std::string& out);
// q, k and v below each other in the one matrix `qkv`.
Block stacked_attention(const Attention& attention, const std::string& qkv, const std::string& out);
// In the one matrix `qkv` the rows of each KV head are together: its query heads, then its k, then
// its v.
Block grouped_attention(const Attention& attention, const std::string& qkv, const std::string& out);

// --- Parts, for attention of a family's own.
struct Qkv {
  Value q, k, v;
};
Qkv separate_qkv(Graph& graph, const Attention& attention, Value x, const std::string& scope);
// q and k rotated, where the layer turns, by the table of its kind; q scaled by its position, if
// that is asked for; attention; the output projection `out`.
Value turned_attention(Graph& graph, const Attention& attention, Qkv qkv, int layer,
                       const std::string& out);
AttentionAttrs attention_attrs(const Attention& attention, int layer);  // Slopes are a view.
// `size` rows at `begin` of each of `count` runs of `run` rows.
FusedPart rows_of_runs(const char* name, int64_t count, int64_t run, int64_t begin, int64_t size);

// x^-0.5, as scores are scaled.
float inverse_root(float x);

// Attention with linear biases (Press et al., 2022): what is added to a head's scores for each
// position that a key is away. [heads]: 2^(-8 i / heads) for i = 1 to heads, where that is a power
// of two; else those of the power of two below, then every second one of twice that.
std::vector<float> alibi_slopes(int64_t heads);

// --- Which layers have a window, by layer: 0, or how many positions a query sees.
using Windows = std::vector<int64_t>;
// sliding_window; 0: none. `fallback` where the key is missing, not null.
int64_t read_window(Keys& keys, int64_t fallback);
// In every layer.
Windows windows_of_all(Keys& keys, int layers, int64_t fallback);
// In layers from max_window_layers on where use_sliding_window says so, or as layer_types says.
Windows windows_by_layer(Keys& keys, int layers, int64_t fallback, int64_t first);
// In all layers but every full_every-th, or as layer_types says. If the family reads it,
// sliding_window_pattern may be another number, or letters that layers repeat: L has a window, G
// has none.
Windows windows_by_pattern(Keys& keys, int layers, int64_t fallback, int64_t full_every,
                           bool reads_pattern = false);
// The layers that turn: those of no_rope_layers, or all but every no_rope_layer_interval-th.
std::vector<bool> turns_by_layer(Keys& keys, int layers, int64_t fallback);
// layer_types by layer: with a window it decides which layers have it; without it must agree with
// the windows.
void read_layer_types(Keys& keys, Windows& windows, std::optional<int64_t> window = std::nullopt);
// layer_types of a model in which only some layers have attention: those that are no `type`.
void read_recurrent_types(Keys& keys, std::vector<bool>& recurs, const char* type);

}  // namespace lockstep
