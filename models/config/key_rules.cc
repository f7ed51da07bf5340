// SPDX-License-Identifier: Apache-2.0
#include "models/config/key_rules.h"

#include <algorithm>

#include "base/status.h"

namespace lockstep {

bool matches_key(std::string_view pattern, std::string_view key) {
  const size_t star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == key;
  if (!key.starts_with(pattern.substr(0, star))) return false;
  const std::string_view rest = pattern.substr(star + 1);
  for (size_t begin = star; begin <= key.size(); ++begin) {
    if (matches_key(rest, key.substr(begin))) return true;
  }
  return false;
}

namespace {

// A rule's statement about its keys.
enum class RuleKind {
  kHarmless,    // The keys have no effect, whatever their value.
  kHarmlessAt,  // The keys have no effect with these values; later rules decide on other values.
  kOnly,        // The computation always has these values; other values are an error.
  kUnknownAt,   // These values may change the computation.
};

struct KeyRule {
  RuleKind kind;
  std::string_view keys;    // Separated by blanks; a * is any text.
  std::string_view values;  // A JSON list.
};

// The first row that has the key and covers the value decides.
constexpr KeyRule kRules[] = {
    // The computation always has these values.
    {RuleKind::kOnly, "*non_causal* *noncausal*", "[false]"},
    {RuleKind::kOnly, "*causal*", "[true]"},
    {RuleKind::kOnly, "_remove_final_layer_norm", "[false]"},
    {RuleKind::kOnly, "scale_attn_weights", "[true]"},
    {RuleKind::kOnly, "scale_attn_by_inverse_layer_idx", "[false]"},
    // States and routers are stored and computed in this type.
    {RuleKind::kOnly, "mamba_ssm_dtype moe_router_dtype router_dtype", R"(["float32"])"},

    // Marks of the program that wrote the file.
    {RuleKind::kHarmless,
     "transformers_version transformers.* *.js_config model_type auto_map custom_pipelines "
     "tokenizer_class tokenizer_name unsloth_* is_llama_config is_composition for_llm_compressor "
     "verbose",
     ""},
    // Classes for tasks other than predicting the next token have these.
    {RuleKind::kHarmless,
     "problem_type id2label label2id num_labels finetuning_task task_specific_params "
     "summary_* classifier_* is_decoder is_encoder_decoder tie_encoder_decoder pruned_heads "
     "predict_special_tokens prefix ignore_index",
     ""},
    // These keys choose how the reference computes the same result, and what it returns besides the
    // logits.
    {RuleKind::kHarmless,
     "attn_implementation use_flash_attn use_cache use_cache_* cache_implementation output_past "
     "return_dict return_dict_in_generate output_attentions output_hidden_states output_scores "
     "output_router_logits gradient_checkpointing chunk_size_feed_forward torchscript "
     "pretraining_tp ep_size bf16 fp16 fp32 use_bfloat16 softmax_in_fp32 attention_softmax_in_fp32 "
     "scale_attention_softmax_in_fp32 reorder_and_upcast_attn masked_softmax_fusion "
     "bias_dropout_fusion skip_bias_add pad_key_length validate_runner_input",
     ""},
    {RuleKind::kHarmlessAt, "inference_runner use_backbone_lora use_llm_lora", "[0]"},
    // The reference does not implement this attention: there, queries see all positions.
    {RuleKind::kHarmless, "dual_chunk_attention_config", ""},
    // Training.
    {RuleKind::kHarmless,
     "*dropout* *_pdrop layerdrop *_drop_prob *_drop_rate drop_path_* *loss* seq_aux "
     "router_jitter_noise embedding_fraction initializer_* init_* *_init_std *_init_scale "
     "*_xavier_init",
     ""},
    // Token ids; begin and end ids are read elsewhere.
    {RuleKind::kHarmless, "*_token_id *_token_ids *_token_index", ""},
    // Settings of generation. Older files have them here; only those in generation_config.json are
    // used.
    {RuleKind::kHarmless,
     "temperature top_k top_p min_p typical_p repetition_penalty length_penalty diversity_penalty "
     "do_sample early_stopping max_length min_length max_new_tokens num_beams num_beam_groups "
     "num_return_sequences no_repeat_ngram_size encoder_no_repeat_ngram_size bad_words_ids "
     "exponential_decay_length_penalty begin_suppress_tokens suppress_tokens "
     "remove_invalid_values model_max_length max_sequence_length",
     ""},
    // Layers that draft further tokens are not run.
    {RuleKind::kHarmless, "*mtp_* use_mtp num_nextn_predict_layers", ""},
    // Vision and audio parts are not run.
    {RuleKind::kHarmless,
     "vision_* audio_* image_* video_* media_* mm_* visual visual_* *projector_* "
     "projection_hidden_size projection_layer_norm_eps "
     "spatial_merge_size use_image_* use_vision_* use_unified_vision_chunk dynamic_image_size "
     "force_image_size max_dynamic_patch min_dynamic_patch downsample_ratio pad2square ps_version "
     "select_layer template system_message use_thumbnail use_mrope",
     ""},

    // A count of zero, and empty values.
    {RuleKind::kHarmlessAt, "num_* n_* *_size", "[0]"},
    {RuleKind::kHarmlessAt, "*", R"([[], {}, ""])"},
    // If one of these keys is false, the model computes something else. For any other key, false
    // means that a part is absent.
    {RuleKind::kUnknownAt,
     "rope use_rope use_rotary use_rotary_* rotary use_pos_enc pre_norm *prenorm norm_first "
     "do_layer_norm_before *normalize_before *elementwise_affine rms_norm use_rms_norm rmsnorm "
     "use_rmsnorm gated_* use_gated_* *glu",
     "[false]"},
    {RuleKind::kHarmlessAt, "*", "[false]"},
};

bool has_key(const KeyRule& rule, std::string_view key) {
  for (std::string_view left = rule.keys; !left.empty();) {
    const size_t end = std::min(left.find(' '), left.size());
    if (matches_key(left.substr(0, end), key)) return true;
    left.remove_prefix(std::min(end + 1, left.size()));
  }
  return false;
}

}  // namespace

absl::StatusOr<bool> is_harmless(std::string_view key, const Json& value) {
  if (value.is_null()) return true;
  for (const KeyRule& rule : kRules) {
    if (!has_key(rule, key)) continue;
    if (rule.kind == RuleKind::kHarmless) return true;
    const Json values = Json::parse(rule.values);
    const bool among = std::ranges::find(values, value) != values.end();
    if (among) return rule.kind != RuleKind::kUnknownAt;
    if (rule.kind != RuleKind::kOnly) continue;
    return invalid_argument("{}: {} is not supported; supported: {}", printable(key),
                            describe(value), values.size() == 1 ? values[0].dump() : values.dump());
  }
  return false;
}

}  // namespace lockstep
