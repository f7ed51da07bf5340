// SPDX-License-Identifier: Apache-2.0
#include "models/models.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/file.h"
#include "base/nearest.h"
#include "models/config_keys.h"
#include "models/config_quantization.h"
#include "models/families/families.h"
#include "models/python_json.h"
#include "models/tensor_sizes.h"
#include "models/wrappers.h"

namespace lockstep {
namespace {

constexpr int64_t kMostConfigBytes = 16 << 20;

// In the order in which messages name them.
constexpr Architectures (*kFamilies[])() = {
    families::llama::rows,      families::qwen::rows,       families::mixtral::rows,
    families::qwen_moe::rows,   families::baichuan::rows,   families::internlm::rows,
    families::phi3::rows,       families::granite::rows,    families::gemma::rows,
    families::minimax::rows,    families::smollm3::rows,    families::glm4::rows,
    families::chatglm1::rows,   families::chatglm::rows,    families::cohere::rows,
    families::exaone4::rows,    families::starcoder2::rows, families::gpt_neox::rows,
    families::gptj::rows,       families::phi::rows,        families::stablelm::rows,
    families::falcon::rows,     families::olmo::rows,       families::lfm2::rows,
    families::qwen3_next::rows, families::gpt2::rows,       families::opt::rows,
    families::bloom::rows,      families::mpt::rows,        families::gpt_oss::rows,
    families::qwen1::rows,      families::deepseek::rows,   families::rwkv5::rows,
    families::rwkv4::rows,      families::rwkv6::rows,      families::rwkv7::rows,
    families::granite4::rows,   families::bamba::rows,      families::nemotron_h::rows,
    families::gemma4::rows,     families::llama4::rows,     families::mistral4::rows,
    families::hunyuan::rows,    families::nemotron::rows,
};

std::vector<Architecture> all_rows() {
  std::vector<Architecture> all;
  for (const auto family : kFamilies) all.insert(all.end(), family().begin(), family().end());
  return all;
}

std::vector<std::string_view> all_names() {
  std::vector<std::string_view> names = wrapper_names();
  for (const Architecture& known : architectures()) names.push_back(known.name);
  return names;
}

// `scope`: TextPart::scope.
std::string in_scope(const std::string& name, const std::string& scope) {
  const bool inside = scope.starts_with("model.");
  if (inside) return name.starts_with("model.") ? scope + name.substr(5) : name;
  return scope.empty() ? name : scope + "." + name;
}

Graph build_graph(const Decoder& decoder, const std::string& scope) {
  Graph graph;
  const bool inside = scope.starts_with("model.");
  {
    std::optional<Scope> wrapped;  // It refers to the graph, which moves.
    if (!scope.empty() && !inside) wrapped.emplace(graph, scope);
    build(graph, decoder);
  }
  if (inside) graph.rename("model.", scope + ".");
  return graph;
}

DType read_dtype(Keys& keys) {
  DType found = DType::kNone;
  for (const char* key : {"torch_dtype", "dtype"}) {
    const std::string name = keys.text(key, "auto");
    if (name == "auto") continue;
    found = DType::kNone;
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
      if (name == dtype_name(dtype)) found = dtype;
    }
    if (found != DType::kNone) continue;
    keys.fail(key, "\"{}\" is not supported; supported: float32, bfloat16, float16",
              printable(name));
  }
  return found;
}

std::vector<int64_t> token_ids(Keys& keys, const char* key, int64_t vocab) {
  std::vector<int64_t> ids;
  const Json& found = keys.json(key);
  if (found.is_null()) return ids;
  for (const Json& id : found.is_array() ? found : Json::array({found})) {
    if (id.is_number_integer() && id >= 0 && id < vocab) {
      ids.push_back(id.get<int64_t>());
    } else {
      keys.fail(key, "must be a token id from 0 to {}, or a list, found {}", vocab - 1,
                describe(id));
    }
  }
  return ids;
}

absl::StatusOr<int64_t> context_of(const Decoder& decoder, int64_t override) {
  const int64_t bound = decoder.max_positions == 0 ? INT64_MAX : decoder.max_positions;
  const auto positions = static_cast<double>(decoder.sizes.positions);
  if (override == 0) return std::min(decoder.sizes.positions, bound);
  const int64_t max = std::min(static_cast<int64_t>(positions * decoder.reach), bound);
  if (override >= 1 && override <= max) return override;
  return invalid_argument(
      "--max-context {}: must be 1 to {}, what max_position_embeddings, the rotary scaling and "
      "the kinds of attention that there are here allow",
      override, max);
}

Graph build(const Architecture& architecture, const Config& config, const std::string& scope) {
  Graph graph;
  graph.sequence_rules.set_rope_length_of_prompt(config.ntk_length > 0);
  std::optional<Scope> wrapped;
  const bool inside = scope.starts_with("model.");
  if (!scope.empty() && !inside) wrapped.emplace(graph, scope);
  architecture.build(graph, config);
  wrapped.reset();  // It refers to the graph, which moves.
  if (inside) graph.rename("model.", scope + ".");
  return graph;
}

// The tensor that would be the head if it was not the embedding.
std::string own_head(const Architecture& architecture, Config config, const std::string& scope) {
  config.tie_word_embeddings = false;
  const Graph untied = build(architecture, config, scope);
  const auto head = std::ranges::find(untied.parameters(), program::HEAD_WEIGHT, &Parameter::role);
  return head == untied.parameters().end() ? "" : head->pieces.front().source();
}

}  // namespace

Architectures architectures() {
  static const std::vector<Architecture> all = all_rows();
  return all;
}

std::set<std::string, std::less<>> keys_of(const Architecture& architecture) {
  if (architecture.read != nullptr) {
    Keys keys{Json::object()};
    architecture.read(keys);
    return keys.names();
  }
  const std::vector<std::string_view> keys = read_keys(architecture.family);
  return {keys.begin(), keys.end()};
}

const std::set<std::string, std::less<>>& keys_of_all() {
  static const std::set<std::string, std::less<>> all = [] {
    std::set<std::string, std::less<>> keys;
    for (const Architecture& known : architectures()) keys.merge(keys_of(known));
    return keys;
  }();
  return all;
}

absl::StatusOr<ReadModel> read_model(const Architecture& architecture, Json json, KeySource source,
                                     int64_t max_context_override) {
  Keys keys(std::move(json), std::move(source));
  keys.rename("compression_config", "quantization_config");
  ReadModel model;
  Config& config = model.config;
  absl::StatusOr<std::string> scheme =
      read_quantization({{"quantization_config", keys.json("quantization_config")}});
  keys.fail(scheme.status());
  if (scheme.ok()) config.scheme = *std::move(scheme);
  model.decoder = architecture.read(keys);
  const Decoder& decoder = model.decoder;
  const Sizes& sizes = decoder.sizes;
  config.dtype = read_dtype(keys);
  config.bos_token_ids = token_ids(keys, "bos_token_id", sizes.vocab);
  config.eos_token_ids = token_ids(keys, "eos_token_id", sizes.vocab);
  RETURN_IF_ERROR(keys.finish());
  ASSIGN_OR_RETURN(config.context, context_of(decoder, max_context_override));
  config.architecture = architecture.name;
  config.vocab_size = sizes.vocab;
  config.hidden_size = sizes.hidden;
  config.intermediate_size = sizes.ffn;
  config.layers = sizes.layers;
  config.heads = sizes.heads;
  config.kv_heads = sizes.kv_heads;
  config.head_dim = sizes.head_dim;
  config.embedding_width = decoder.embedding_width > 0 ? decoder.embedding_width : sizes.hidden;
  config.tie_word_embeddings = decoder.tied;
  config.experts = {.count = decoder.mixture.count,
                    .chosen = decoder.mixture.chosen,
                    .size = decoder.mixture.size,
                    .either_layout = decoder.either_layout};
  return model;
}

absl::StatusOr<const Architecture*> find_architecture(const Json& json) {
  const bool given = json.is_object() && json.contains("architectures");
  const Json found = given ? json["architectures"] : Json();
  if (!found.is_array() || found.size() != 1 || !found[0].is_string()) {
    return invalid_argument(
        "architectures: must be a list of one name (docs/models.md has them), found {}",
        given ? describe(found) : "nothing");
  }
  const std::string name = found[0].get<std::string>();
  for (const Architecture& known : architectures()) {
    if (known.name == name && (known.is == nullptr || known.is(json))) return &known;
  }
  return invalid_argument(
      "architectures: \"{}\" is not supported; the nearest names that are: {} (docs/models.md has "
      "all)",
      printable(name), fmt::join(nearest(name, all_names(), 3), ", "));
}

absl::StatusOr<ModelDescription> describe_model(const std::filesystem::path& folder,
                                                const std::vector<std::string>& ignore_config_keys,
                                                int64_t max_context_override) {
  const std::filesystem::path path = folder / "config.json";
  ASSIGN_OR_RETURN(const std::string text, read_file(path, kMostConfigBytes));
  ASSIGN_OR_RETURN(Json json, parse_python_json(text, path.string()));
  ConfigSource source{.file = path.string()};
  ASSIGN_OR_RETURN(source.ignored, ignore_keys(json, ignore_config_keys));
  RETURN_IF_ERROR(check_quantization_file(folder, json));
  absl::StatusOr<TextPart> part = unwrap_text(json);
  if (!part.ok()) return invalid_argument("{}: {}", source.file, message_of(part.status()));
  source.object = part->object;
  source.beside = std::move(part->beside);
  source.defaults = std::move(part->defaults);
  const absl::StatusOr<const Architecture*> architecture = find_architecture(json);
  if (!architecture.ok()) {
    return invalid_argument("{}: {}", source.file, message_of(architecture.status()));
  }
  ModelDescription model;
  const std::filesystem::path name = std::filesystem::absolute(folder).lexically_normal();
  if ((*architecture)->read != nullptr) {
    absl::StatusOr<ReadModel> read = read_model(**architecture, std::move(json),
                                                {.folder = folder,
                                                 .object = std::move(source.object),
                                                 .beside = std::move(source.beside),
                                                 .ignored = std::move(source.ignored),
                                                 .defaults = std::move(source.defaults)},
                                                max_context_override);
    if (!read.ok()) return invalid_argument("{}: {}", source.file, message_of(read.status()));
    model.config = std::move(read->config);
    model.config.tie_disputed = part->tie_disputed;
    if (read->decoder.tied) {
      model.config.own_head = in_scope(fmt::format("{}.weight", read->decoder.head), part->scope);
    }
    model.graph = build_graph(read->decoder, part->scope);
    model.graph.model = name.has_filename() ? name.filename() : name.parent_path().filename();
    return model;
  }
  read_tensor_sizes(folder, (*architecture)->family, json);
  ASSIGN_OR_RETURN(model.config, parse_config(json, source, (*architecture)->name,
                                              (*architecture)->family, max_context_override));
  model.config.tie_disputed = part->tie_disputed;
  if (model.config.tie_word_embeddings) {
    model.config.own_head = own_head(**architecture, model.config, part->scope);
  }
  model.graph = build(**architecture, model.config, part->scope);
  model.graph.model = name.has_filename() ? name.filename() : name.parent_path().filename();
  return model;
}

}  // namespace lockstep
