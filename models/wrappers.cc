// SPDX-License-Identifier: Apache-2.0
#include "models/wrappers.h"

#include <algorithm>
#include <array>
#include <utility>

#include "models/config_keys.h"
#include "models/refused.h"

namespace lockstep {
namespace {

// By text_config's model_type.
struct TextModel {
  std::string_view model_type;
  std::string_view architecture;
};

struct Wrapper {
  std::string_view name;
  std::array<TextModel, 3> text;         // The first where text_config has no model_type.
  std::array<std::string_view, 8> keys;  // Of the outer object: they say nothing of the text part.
  std::string_view scope = "language_model";  // What its tensors' names begin with.
  bool mrope = false;  // Three positions turn a head, which are alike in text.
};

constexpr Wrapper kWrappers[] = {
    {"Mistral3ForConditionalGeneration",
     {{{"mistral", "MistralForCausalLM"},
       {"ministral3", "Ministral3ForCausalLM"},
       {"mistral4", "Mistral4ForCausalLM"}}},
     {"image_token_index", "image_token_id", "multimodal_projector_bias", "projector_hidden_act",
      "spatial_merge_size", "vision_feature_layer"}},
    {"Gemma3ForConditionalGeneration",
     {{{"gemma3_text", "Gemma3ForCausalLM"}}},
     {"image_token_index", "image_token_id", "boi_token_index", "eoi_token_index",
      "mm_tokens_per_image"}},
    {"Llama4ForConditionalGeneration",
     {{{"llama4_text", "Llama4ForCausalLM"}}},
     {"image_token_index", "image_token_id", "boi_token_index", "eoi_token_index", "boi_token_id",
      "eoi_token_id"}},
    {"Qwen3VLForConditionalGeneration",
     {{{"qwen3_vl_text", "Qwen3ForCausalLM"}}},
     {"image_token_id", "video_token_id", "vision_start_token_id", "vision_end_token_id"},
     "model.language_model",
     /*mrope=*/true},
    {"Qwen3_5ForConditionalGeneration",
     {{{"qwen3_5_text", "Qwen3_5ForCausalLM"}}},
     {"image_token_id", "video_token_id", "vision_start_token_id", "vision_end_token_id"},
     "model.language_model",
     /*mrope=*/true},
    {"Qwen3_5MoeForConditionalGeneration",
     {{{"qwen3_5_moe_text", "Qwen3_5MoeForCausalLM"}}},
     {"image_token_id", "video_token_id", "vision_start_token_id", "vision_end_token_id"},
     "model.language_model",
     /*mrope=*/true},
    {"Gemma4ForConditionalGeneration",
     {{{"gemma4_text", "Gemma4ForCausalLM"}}},
     {"image_token_id", "video_token_id", "audio_token_id", "boi_token_id", "eoi_token_id",
      "boa_token_id", "eoa_token_index", "vision_soft_tokens_per_image"},
     "model.language_model"},
};

// Which positions turn which columns matters to images alone.
void forget_mrope(Json& text) {
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    const auto found = text.find(key);
    if (found == text.end() || !found->is_object()) continue;
    for (const char* inner : {"mrope_section", "mrope_interleaved"}) found->erase(inner);
  }
}

// Of the outer object, which wins.
constexpr std::string_view kSharedKeys[] = {
    "tie_word_embeddings", "torch_dtype",  "dtype",
    "bos_token_id",        "eos_token_id", "quantization_config"};

template <typename Range>
bool contains(const Range& range, std::string_view key) {
  return std::find(std::begin(range), std::end(range), key) != std::end(range);
}

absl::StatusOr<std::string_view> text_architecture(const Wrapper& wrapper, const Json& text) {
  ASSIGN_OR_RETURN(const std::string model_type,
                   get_string(text, "model_type", std::string(wrapper.text[0].model_type)));
  std::string supported;
  for (const TextModel& known : wrapper.text) {
    if (known.model_type.empty()) continue;
    if (known.model_type == model_type) return known.architecture;
    supported += supported.empty() ? known.model_type : fmt::format(", {}", known.model_type);
  }
  return invalid_argument("text_config.model_type: \"{}\" is not supported in {}; supported: {}",
                          printable(model_type), wrapper.name, supported);
}

absl::StatusOr<Json> text_of(const Wrapper& wrapper, const Json& json) {
  const auto found = json.find("text_config");
  if (found == json.end() || !found->is_object()) {
    return invalid_argument("text_config: wanted an object, found {}",
                            describe(found == json.end() ? Json() : *found));
  }
  Json text = *found;
  if (wrapper.mrope) forget_mrope(text);
  ASSIGN_OR_RETURN(const std::string_view architecture, text_architecture(wrapper, text));
  text["architectures"] = Json::array({architecture});
  Json unknown = Json::object();
  for (const auto& [key, value] : json.items()) {
    if (value.is_null() || key == "architectures" || key == "text_config") continue;
    if (key == "vision_config" || key == "audio_config" || contains(wrapper.keys, key)) continue;
    if (contains(kSharedKeys, key)) {
      text[key] = value;
    } else if (is_known_key(key)) {
      return invalid_argument("{}: wanted in text_config, found beside it", key);
    } else {
      unknown[key] = value;
    }
  }
  RETURN_IF_ERROR(check_keys(unknown, Family{}));
  return text;
}

}  // namespace

absl::StatusOr<std::string> unwrap_text(Json& json) {
  const Json names = json.is_object() ? json.value("architectures", Json()) : Json();
  if (!names.is_array() || names.size() != 1 || !names[0].is_string()) return "";
  const std::string name = names[0].get<std::string>();
  for (const RefusedArchitecture& refused : refused_architectures()) {
    if (refused.name != name) continue;
    return invalid_argument("architectures: \"{}\" is not supported: {}", name, refused.because);
  }
  for (const Wrapper& wrapper : kWrappers) {
    if (wrapper.name != name) continue;
    ASSIGN_OR_RETURN(json, text_of(wrapper, json));
    return std::string(wrapper.scope);
  }
  return "";
}

std::vector<std::string_view> wrapper_names() {
  std::vector<std::string_view> names;
  for (const Wrapper& wrapper : kWrappers) names.push_back(wrapper.name);
  return names;
}

}  // namespace lockstep
