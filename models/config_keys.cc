// SPDX-License-Identifier: Apache-2.0
#include "models/config_keys.h"

#include <algorithm>
#include <string>

namespace lockstep {
namespace {

// Keys that change the maths and that every family reads.
constexpr std::string_view kKnownKeys[] = {
    "architectures",
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "rms_norm_eps",
    "rope_theta",
    "rope_scaling",
    "rope_parameters",
    "partial_rotary_factor",
    "tie_word_embeddings",
    "hidden_act",
    "torch_dtype",
    "dtype",
    "max_position_embeddings",
    "bos_token_id",
    "eos_token_id",
    "quantization_config",
    "original_max_position_embeddings",
};

// Keys that decide nothing that is computed here: training, other programs, the reference's ways of
// computing the same (pretraining_tp), and old places of generation settings.
constexpr std::string_view kHarmlessKeys[] = {
    "_name_or_path",
    "_commit_hash",
    "_attn_implementation",
    "_attn_implementation_autoset",
    "attn_implementation",
    "model_type",
    "transformers_version",
    "use_cache",
    "initializer_range",
    "attention_dropout",
    "attention_probs_dropout_prob",
    "hidden_dropout_prob",
    "hidden_dropout",
    "resid_pdrop",
    "embd_pdrop",
    "mlp_dropout",
    "pad_token_id",
    "sep_token_id",
    "decoder_start_token_id",
    "pretraining_tp",
    "output_attentions",
    "output_hidden_states",
    "return_dict",
    "return_dict_in_generate",
    "output_scores",
    "tokenizer_class",
    "auto_map",
    "chunk_size_feed_forward",
    "problem_type",
    "id2label",
    "label2id",
    "num_labels",
    "pruned_heads",
    "finetuning_task",
    "task_specific_params",
    "prefix",
    "torchscript",
    "tie_encoder_decoder",
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "typical_p",
    "repetition_penalty",
    "length_penalty",
    "diversity_penalty",
    "do_sample",
    "early_stopping",
    "max_length",
    "min_length",
    "max_new_tokens",
    "num_beams",
    "num_beam_groups",
    "num_return_sequences",
    "no_repeat_ngram_size",
    "encoder_no_repeat_ngram_size",
    "exponential_decay_length_penalty",
    "bad_words_ids",
    "begin_suppress_tokens",
    "suppress_tokens",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "remove_invalid_values",
    "unsloth_version",
    "unsloth_fixed",
    "_flash_attn_2_enabled",
    "model_max_length",
    "output_router_logits",
    "router_aux_loss_coef",
    "router_jitter_noise",
    "cache_implementation",
    "classifier_dropout",
    "attn_pdrop",
    "residual_dropout",
    "embedding_dropout",
    "gradient_checkpointing",
    "summary_activation",
    "summary_first_dropout",
    "summary_proj_to_labels",
    "summary_type",
    "summary_use_proj",
    "attention_softmax_in_fp32",
    "scale_attention_softmax_in_fp32",
    "bias_dropout_fusion",
    "masked_softmax_fusion",
    "skip_bias_add",
    "unk_token_id",
    "dropout",
    "layerdrop",
    "init_std",
    "emb_pdrop",
    "embedding_fraction",
    "emb_dropout_prob",
    "attn_dropout_prob",
    "use_flash_attn",
    "use_cache_quantization",
    "use_cache_kernel",
    "softmax_in_fp32",
    "bf16",
    "fp16",
    "fp32",
    "ep_size",
    "aux_loss_alpha",
    "seq_aux",
    "init_config",
    "init_device",
    "tokenizer_name",
    "verbose",
};

template <typename Range>
bool contains(const Range& range, std::string_view key) {
  return std::find(std::begin(range), std::end(range), key) != std::end(range);
}

}  // namespace

absl::StatusOr<int64_t> get_count(const Json& json, std::string_view key, int64_t most,
                                  std::optional<int64_t> fallback) {
  ASSIGN_OR_RETURN(const int64_t value, get_int(json, key, fallback));
  if (value < 1 || value > most) {
    return invalid_argument("{}: wanted an integer from 1 to {}, found {}", key, most, value);
  }
  return value;
}

// Of Mamba-2, by the names of Bamba and Granite 4, and some that decide nothing.
constexpr std::string_view kMambaKeys[] = {
    "mamba_d_conv",      "mamba_conv_bias",       "mamba_n_heads",     "mamba_n_groups",
    "mamba_d_state",     "mamba_d_head",          "mamba_expand",      "mamba_proj_bias",
    "use_bias",          "time_step_limit",       "time_step_min",     "time_step_max",
    "time_step_floor",   "time_step_rank",        "mamba_chunk_size",  "chunk_size",
    "use_mamba_kernels", "mamba_ssm_cache_dtype", "num_logits_to_keep"};

bool is_known_key(std::string_view key) { return contains(kKnownKeys, key); }

bool reads_key(const Family& family, std::string_view key) {
  return (!key.empty() && contains(family.keys, key)) ||
         (family.mamba && contains(kMambaKeys, key));
}

absl::Status check_keys(const Json& json, const Family& family) {
  for (const auto& [key, value] : json.items()) {
    if (value.is_null() || value == false) continue;
    if (contains(kKnownKeys, key) || contains(kHarmlessKeys, key)) continue;
    if (reads_key(family, key) || reads_expert_key(family.experts, key)) continue;
    return invalid_argument(
        "{0}: unknown here and may change what the model computes (found {1}); "
        "--ignore-config {0} runs without it",
        printable(key), describe(value));
  }
  return absl::OkStatus();
}

absl::Status check_only(const Json& json, std::span<const OnlyValue> only) {
  for (const auto& [key, value] : only) {
    const auto found = json.find(key);
    if (found == json.end() || found->is_null() || *found == value) continue;
    return invalid_argument("{}: {} is not supported; supported: {}", key, describe(*found),
                            value.dump());
  }
  return absl::OkStatus();
}

absl::Status use_our_names(Json& json, const Family& family) {
  if (!json.is_object()) return absl::OkStatus();
  for (const KeyName& name : family.names) {
    const auto found = json.find(std::string(name.published));
    if (name.published.empty() || found == json.end()) continue;
    const Json value = *found;
    json.erase(found);
    Json& ours = json[std::string(name.ours)];
    if (value.is_null()) continue;
    if (!ours.is_null() && ours != value) {
      return invalid_argument("{} and {} are both there and differ: keep one", name.published,
                              name.ours);
    }
    ours = value;
  }
  return absl::OkStatus();
}

std::string with_published_name(const Json& json, const Family& family, std::string message) {
  for (const KeyName& name : family.names) {
    const std::string prefix = std::string(name.ours) + ":";
    if (name.published.empty() || !message.starts_with(prefix)) continue;
    if (!json.is_object() || !json.contains(std::string(name.published))) continue;
    return std::string(name.published) + message.substr(name.ours.size());
  }
  return message;
}

}  // namespace lockstep
