// SPDX-License-Identifier: Apache-2.0
// What a family of models has that its config.json need not say.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "base/json.h"
#include "models/config_experts.h"
#include "models/specs.h"

namespace lockstep {

// A key that a family publishes under a name of its own.
struct KeyName {
  std::string_view published;
  std::string_view ours;
  bool wins = false;  // It counts where ours says something else.
};

// A key that config.json may leave to the tensors: a dimension of one of them.
struct TensorSize {
  std::string_view key;
  std::string_view tensor;
  size_t dimension = 0;
};

struct Config;

// What an architecture has that its config.json need not say: defaults as of transformers 5.
struct Family {
  bool tie_word_embeddings = false;
  bool qkv_bias = false;        // Where use_qkv_bias is missing.
  bool attention_bias = false;  // Of q, k, v and the output projection, where the key is missing.
  bool mlp_bias = false;        // Where the key is missing.
  bool head_bias = false;
  QkNorm qk_norm = {};      // Where it has the key use_qk_norm: if that is true.
  bool layer_norm = false;  // In place of RMS norm,
  bool norm_bias = true;    // and with biases.
  bool parallel = false;    // Where use_parallel_residual is missing.
  int parallel_norms = 0;   // As Config::parallel_norms, where halves are parallel.
  double norm_eps = 1e-6;
  bool norm_plus_one = false;             // Norm weights are stored as the w of 1 + w.
  bool embedding_by_sqrt_hidden = false;  // Embeddings are multiplied by it.
  std::string_view activation = "silu";
  double query_pre_attn_scalar = 0;  // Where the key is missing; 0: head_dim, and no such key.
  double attention_cap = 0;          // Where the key is missing; 0: none.
  double logits_cap = 0;             // The same.
  double rope_theta = 10000;
  double window_rope_theta = 0;   // Of layers with a window, unscaled; 0: one table for all layers.
  double partial_rotary = 0;      // The part of a head that turns; 0: whole heads, in every model.
  bool rope_interleaved = false;  // Pairs (2i, 2i + 1) turn.
  bool yarn_is_longrope = false;  // The kinds "yarn" and "su" are older names of "longrope".
  bool rope_fixed_alpha = false;  // An alpha beside the kind "dynamic" is for every length.
  double ffn_per_hidden = 0;      // intermediate_size / hidden_size, where the key is missing.
  int64_t positions = 0;          // max_position_embeddings where the key is missing.
  int64_t kv_heads = 0;           // Where the key is missing, not null; 0: num_attention_heads.
  int64_t head_dim = 0;           // 0: hidden_size / num_attention_heads.
  WindowRule window = WindowRule::kNone;
  int64_t default_window = 0;  // Where the key is missing; null and 0 are none.
  int64_t max_window_layers = 0;
  int64_t full_every = 0;           // kPattern: where the key is missing.
  int64_t no_rope_every = 0;        // Every so many-th layer turns nothing; 0: all turn.
  bool only_windows_turn = false;   // Where there is a window, layers without it turn nothing.
  double logit_scale = 1;           // Where the key is missing.
  const char* defaults = nullptr;   // JSON of keys in our names, for where one is missing.
  std::string_view recurrent_type;  // What layer_types calls layers of RecurrentConfig.
  bool mamba = false;               // Has the keys that read_mamba() reads.
  // The keys that this family reads besides those that all do, in our names.
  std::array<std::string_view, 24> keys = {};
  std::array<KeyName, 12> names = {};
  std::array<TensorSize, 6> sizes = {};
  FamilyExperts experts = {};
  // Null, or what refuses models under this architecture's name that compute something else.
  absl::Status (*check)(const Json& json) = nullptr;
  // Null, or what reads keys that no other family has; `config` has sizes and maths already.
  absl::Status (*refine)(const Json& json, Config& config) = nullptr;
  // The same, once layers and experts are read.
  absl::Status (*refine_layers)(const Json& json, Config& config) = nullptr;
};

}  // namespace lockstep
