// SPDX-License-Identifier: Apache-2.0
// What a model's config.json says, parsed and checked, in both of the published forms
// (rope_scaling, torch_dtype; rope_parameters, dtype). A key that the family does not read and that
// no rule (models/key_rules.h) calls harmless is an error.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/json.h"
#include "base/numbers/dtype.h"
#include "models/config_experts.h"
#include "models/config_kinds.h"
#include "models/config_latent.h"
#include "models/config_recurrent.h"
#include "models/config_rwkv.h"
#include "models/family.h"
#include "models/graph.h"
#include "operators/function.h"

namespace lockstep {

struct Config {
  std::string architecture;
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int layers = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  float norm_eps = 0;
  float norm_plus = 0;  // Added to stored norm weights.
  Function activation = Function::kSilu;
  float attention_scale = 0;
  bool scale_by_layer = false;     // The scale is divided by the layer's number, from 1.
  float attention_cap = 0;         // 0: none.
  std::vector<float> slopes = {};  // [heads], of alibi; with any, nothing turns.
  std::string sinks;               // The tensor of attention's sinks in a layer; "": none.
  float gate_limit = 0;            // Of a gated MLP whose gate and up are bounded.
  float qkv_clamp = 0;             // q, k and v are brought within -qkv_clamp to qkv_clamp; 0: not.
  // Of the table of learned positions, in which the first one has this row; with it nothing turns.
  int64_t position_rows = 0;
  int64_t position_offset = 0;
  float logits_cap = 0;
  float embedding_multiplier = 1;
  float residual_multiplier = 1;  // Of what attention and MLP add.
  float logits_multiplier = 1;
  Rope rope;
  Rope window_rope;  // Of layers with a window.
  Rope second_rope;  // Of further columns of each head; head_dim 0: none.
  PositionScales query_scales;
  // Frequencies depend on how many times so many positions the prompt has (dynamic NTK of the first
  // Qwen); 0: they don't.
  int64_t ntk_length = 0;
  bool tie_word_embeddings = false;
  std::string own_head;       // The tensor of a tied model's head, if it had one of its own.
  bool tie_disputed = false;  // Two objects of config.json differ in it: the checkpoint decides.
  bool qkv_bias = false;
  bool output_bias = false;  // Of the attention's output projection.
  bool mlp_bias = false;
  bool head_bias = false;
  bool head_unit_rows = false;  // Rows of the head are brought to length 1.
  QkNorm qk_norm = {};
  bool layer_norm = false;  // In place of RMS norm.
  bool norm_bias = false;
  // Of halves that both read the layer's input: 1 for both or 2; 0: the MLP follows the attention.
  int parallel_norms = 0;
  // The residual stream goes on with what a half's norm gave, times this; 0: as it was.
  float kept_norm = 0;
  bool end_norms = false;        // A norm follows each addition of a half, and none is before it.
  int64_t embedding_width = 0;   // Of embedding and head; 0: hidden_size.
  std::vector<bool> turns;       // [layers]: whether q and k are rotated.
  std::vector<int64_t> windows;  // [layers]: 0, or how many positions a query sees.
  std::vector<int64_t> chunks;   // [layers], of runs of positions that see each other, or empty.
  KindConfig kinds;
  ExpertConfig experts;
  RecurrentConfig recurrent;
  LatentConfig latent;
  RwkvConfig rwkv;
  int64_t max_position_embeddings = 0;
  int64_t most_positions = 0;  // That are computed right; 0: any.
  int64_t context = 0;         // Positions that a sequence may have.
  DType dtype = DType::kNone;  // As the config says the weights are stored, if it does.
  std::string scheme;          // In which `lockstep quantize` stored them (quantization_config).
  std::vector<int64_t> bos_token_ids;
  std::vector<int64_t> eos_token_ids;
  std::vector<int64_t> mask_token_ids;  // Of the first ChatGLM.
};

// Axes of a model in the words of its config.
inline AxisSize hidden(const Config& c) { return {Axis::kHidden, c.hidden_size, 1}; }
inline AxisSize embedding(const Config& c) {
  return {Axis::kHidden, c.embedding_width > 0 ? c.embedding_width : c.hidden_size, 1};
}
inline AxisSize heads(const Config& c) { return {Axis::kHeads, c.heads, c.head_dim}; }
inline AxisSize kv_heads(const Config& c) {
  return {Axis::kKvHeads, c.kv_heads, c.head_dim, c.heads};
}
inline AxisSize ffn(const Config& c) { return {Axis::kFfn, c.intermediate_size, 1}; }
inline AxisSize vocab(const Config& c) { return {Axis::kVocab, c.vocab_size, 1}; }

// Names of the object that has the text part of a multimodal model.
inline constexpr std::string_view kTextObjects[] = {"text_config", "language_config", "llm_config"};

// Takes away keys that the user says to ignore, and returns them by path: "key", "object.key" for
// one within an object; those of a text part's object may be and are returned by "key". Names may
// have dots in them. One that is not there is an error.
absl::StatusOr<Json> ignore_keys(Json& json, const std::vector<std::string>& keys);

// The origin of a model's config.
struct ConfigSource {
  std::string file;
  std::string object = "";         // One of kTextObjects that has it; "": the file itself.
  Json beside = Json::object();    // The other keys of the file that may matter.
  Json ignored = Json::object();   // By ignore_keys().
  Json defaults = Json::object();  // Values of missing keys, in our names, before the family's.
};

// Errors are one line that begins with the file. `max_context_override` of 0: what the model says;
// more than the model was made for (with its rotary scaling) is an error.
absl::StatusOr<Config> parse_config(const Json& json, const ConfigSource& source,
                                    std::string_view architecture, const Family& family,
                                    int64_t max_context_override);

}  // namespace lockstep
