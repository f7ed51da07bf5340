// SPDX-License-Identifier: Apache-2.0
#include "models/config/wrappers.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/status.h"
#include "models/config/refused.h"

namespace lockstep {
namespace {

struct Wrapper {
  std::string_view name;
  std::string_view text;                      // The text part's model_type if it states none.
  std::string_view scope = "language_model";  // TextPart::scope.
};

constexpr std::string_view kInside = "model.language_model";

constexpr Wrapper kWrappers[] = {
    {"Mistral3ForConditionalGeneration", "mistral"},
    {"Gemma3ForConditionalGeneration", "gemma3_text"},
    {"Llama4ForConditionalGeneration", "llama4_text"},
    {"Qwen2VLForConditionalGeneration", "qwen2_vl_text", ""},
    {"Qwen2_5_VLForConditionalGeneration", "qwen2_5_vl_text", ""},
    {"Qwen3VLForConditionalGeneration", "qwen3_vl_text", kInside},
    {"Qwen3VLMoeForConditionalGeneration", "qwen3_vl_moe_text", kInside},
    {"Qwen3_5ForConditionalGeneration", "qwen3_5_text", kInside},
    {"Qwen3_5MoeForConditionalGeneration", "qwen3_5_moe_text", kInside},
    {"Gemma4ForConditionalGeneration", "gemma4_text", kInside},
    {"LlavaForConditionalGeneration", "llama"},
    {"LlavaNextForConditionalGeneration", "llama"},
    {"LlavaOnevisionForConditionalGeneration", "qwen2"},
    {"InternVLForConditionalGeneration", "qwen2"},
    {"InternVLChatModel", "internlm2"},
    {"KimiK25ForConditionalGeneration", "kimi_k2"},
    {"Kimi_K25ForConditionalGeneration", "deepseek_v3"},
    {"Exaone4_5_ForConditionalGeneration", "exaone4", kInside},
    {"Glm4vForConditionalGeneration", "glm4v_text", kInside},
    {"Glm4vMoeForConditionalGeneration", "glm4v_moe_text", kInside},
    {"Glm46VForConditionalGeneration", "glm4v_text", kInside},
};

struct TextModel {
  std::string_view model_type;
  std::string_view architecture;
  const char* defaults = "{}";  // TextPart::defaults, if they differ from the architecture's.
  bool divides_hidden =
      false;  // Its class takes hidden_size / num_attention_heads as the width of a head.
};

// LLaVA's files contain only the values that differ from these.
constexpr char kLlama[] = R"({"vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 11008,
    "num_hidden_layers": 32, "num_attention_heads": 32, "max_position_embeddings": 2048})";
constexpr char kMistral[] = R"({"vocab_size": 32000, "hidden_size": 4096,
    "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 8, "max_position_embeddings": 131072})";
constexpr char kQwen2[] = R"({"vocab_size": 151936, "hidden_size": 4096,
    "intermediate_size": 22016, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 32, "max_position_embeddings": 32768})";
constexpr char kQwen2Vl[] = R"({"vocab_size": 152064, "hidden_size": 8192,
    "intermediate_size": 29568, "num_hidden_layers": 80, "num_attention_heads": 64,
    "num_key_value_heads": 8, "rms_norm_eps": 1e-5, "rope_theta": 1000000.0,
    "max_window_layers": 80, "max_position_embeddings": 32768})";
constexpr char kGlm4vMoe[] = R"({"use_qkv_bias": true})";

constexpr TextModel kTextModels[] = {
    {"llama", "LlamaForCausalLM", kLlama},
    {"mistral", "MistralForCausalLM", kMistral},
    {"ministral3", "Ministral3ForCausalLM"},
    {"mistral4", "Mistral4ForCausalLM"},
    {"mixtral", "MixtralForCausalLM"},
    {"gemma", "GemmaForCausalLM"},
    {"gemma2", "Gemma2ForCausalLM"},
    {"gemma3_text", "Gemma3ForCausalLM"},
    {"gemma4_text", "Gemma4ForCausalLM"},
    {"llama4_text", "Llama4ForCausalLM"},
    {"qwen2", "Qwen2ForCausalLM", kQwen2},
    {"qwen2_vl", "Qwen2ForCausalLM", kQwen2Vl, true},
    {"qwen2_vl_text", "Qwen2ForCausalLM", kQwen2Vl, true},
    {"qwen2_5_vl", "Qwen2ForCausalLM", kQwen2Vl, true},
    {"qwen2_5_vl_text", "Qwen2ForCausalLM", kQwen2Vl, true},
    {"qwen3", "Qwen3ForCausalLM"},
    {"qwen3_moe", "Qwen3MoeForCausalLM"},
    {"qwen3_vl_text", "Qwen3ForCausalLM"},
    {"qwen3_vl_moe_text", "Qwen3MoeForCausalLM"},
    {"qwen3_5_text", "Qwen3_5ForCausalLM"},
    {"qwen3_5_moe_text", "Qwen3_5MoeForCausalLM"},
    {"gpt_oss", "GptOssForCausalLM"},
    {"internlm2", "InternLM2ForCausalLM"},
    {"phi3", "Phi3ForCausalLM"},
    {"kimi_k2", "DeepseekV3ForCausalLM"},
    {"deepseek_v3", "DeepseekV3ForCausalLM"},
    {"exaone4", "Exaone4ForCausalLM"},
    {"exaone4_5_text", "Exaone4ForCausalLM"},
    {"glm4v_text", "Glm4ForCausalLM", "{}", true},
    {"glm4v_moe_text", "Glm4MoeForCausalLM", kGlm4vMoe},
};

// Keys for which the outer object takes precedence over the text part's object.
constexpr std::string_view kSharedKeys[] = {"torch_dtype", "dtype", "bos_token_id", "eos_token_id",
                                            "quantization_config"};

// Keys that change the computation of any text model.
constexpr std::string_view kTextKeys[] = {
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

const TextModel* find_text_model(const Json& model_type) {
  const auto* found = std::ranges::find_if(
      kTextModels, [&](const TextModel& known) { return model_type == known.model_type; });
  return found == std::end(kTextModels) ? nullptr : found;
}

// Decides whether the output head is the embedding, and returns whether the two objects state
// different values (releases of transformers write a default into the outer object). If they
// differ, the checkpoint decides: the embedding is the output head if the checkpoint has no other.
bool tie_text(const Json& outer, Json& text) {
  const Json tied = outer.value("tie_word_embeddings", Json());
  if (tied.is_null()) return false;
  Json& inner = text["tie_word_embeddings"];
  const bool differ = inner.is_boolean() && tied.is_boolean() && inner != tied;
  inner = differ ? Json(false) : tied;
  return differ;
}

// Reads the members outside the text part's object. Members in kSharedKeys are copied into `text`,
// members that equal those of `text` are skipped, other members in kTextKeys are refused, and all
// others are put in `beside`.
absl::Status read_outer(const Json& outer, std::string_view object, Json& text, Json& beside) {
  for (const auto& [key, value] : outer.items()) {
    if (value.is_null() || key == object || key == "architectures") continue;
    if (key == "tie_word_embeddings" || text.value(key, Json()) == value) continue;
    if (std::ranges::find(kSharedKeys, key) != std::end(kSharedKeys)) {
      text[key] = value;
    } else if (std::ranges::find(kTextKeys, key) == std::end(kTextKeys)) {
      beside[key] = value;
    } else {
      return invalid_argument("{}: must be in {}, found beside it", key, object);
    }
  }
  return absl::OkStatus();
}

// If the model's class computes the width of a head, head_dim must be equal to it.
absl::Status check_head_dim(const TextModel& model, const Json& text) {
  const Json head_dim = text.value("head_dim", Json());
  if (!model.divides_hidden || !head_dim.is_number_integer()) return absl::OkStatus();
  Json sizes = Json::parse(model.defaults);
  sizes.update(text);
  const Json hidden = sizes.value("hidden_size", Json());
  const Json heads = sizes.value("num_attention_heads", Json());
  if (!hidden.is_number_integer() || !heads.is_number_integer()) return absl::OkStatus();
  if (heads > 0 && head_dim == hidden.get<int64_t>() / heads.get<int64_t>()) {
    return absl::OkStatus();
  }
  return invalid_argument(
      "head_dim: must be hidden_size / num_attention_heads ({} / {}), as {} has it, found {}",
      hidden.dump(), heads.dump(), model.model_type, describe(head_dim));
}

absl::StatusOr<TextPart> text_of(const Wrapper& wrapper, Json& json) {
  TextPart part{.scope = std::string(wrapper.scope)};
  Json text = json;
  for (const std::string_view object : kTextObjects) {
    if (json.value(std::string(object), Json()).is_object()) part.object = object;
  }
  if (!part.object.empty()) {
    text = json[part.object];
    RETURN_IF_ERROR(read_outer(json, part.object, text, part.beside));
    part.tie_disputed = tie_text(json, text);
  } else if (find_text_model(json.value("model_type", Json())) == nullptr) {
    return invalid_argument("text_config: must be an object, found {}",
                            describe(json.value("text_config", Json())));
  }
  const TextModel* model = find_text_model(text.value("model_type", Json(wrapper.text)));
  if (model == nullptr) {
    return invalid_argument(
        "{}.model_type: {} is not supported in {}; docs/models.md lists what is", part.object,
        describe(text["model_type"]), wrapper.name);
  }
  RETURN_IF_ERROR(check_head_dim(*model, text));
  text["architectures"] = Json::array({model->architecture});
  text["model_type"] = model->model_type;
  part.defaults = Json::parse(model->defaults);
  json = std::move(text);
  return part;
}

}  // namespace

absl::StatusOr<TextPart> unwrap_text(Json& json) {
  if (!json.is_object()) return TextPart();
  Json names = json.value("architectures", Json());
  if (names.is_null()) {  // Qwen2-VL saved by transformers 4.57.
    const Json text = json.value("text_config", Json());
    if (text.is_object()) names = text.value("architectures", Json());
  }
  if (!names.is_array() || names.size() != 1 || !names[0].is_string()) return TextPart();
  for (const RefusedArchitecture& refused : refused_architectures()) {
    if (names[0] != refused.name) continue;
    return invalid_argument("architectures: \"{}\" is not supported: {}", refused.name,
                            refused.because);
  }
  for (const Wrapper& wrapper : kWrappers) {
    if (names[0] == wrapper.name) return text_of(wrapper, json);
  }
  return TextPart();
}

std::vector<std::string_view> wrapper_names() {
  std::vector<std::string_view> names;
  for (const Wrapper& wrapper : kWrappers) names.push_back(wrapper.name);
  return names;
}

}  // namespace lockstep
