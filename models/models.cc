// SPDX-License-Identifier: Apache-2.0
#include "models/models.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/nearest.h"
#include "base/system/file.h"
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
    families::qwen1::rows,      families::deepseek::rows,   families::deepseek_sparse::rows,
    families::rwkv5::rows,      families::rwkv4::rows,      families::rwkv6::rows,
    families::rwkv7::rows,      families::granite4::rows,   families::bamba::rows,
    families::nemotron_h::rows, families::gemma4::rows,     families::llama4::rows,
    families::mistral4::rows,   families::hunyuan::rows,    families::nemotron::rows,
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

absl::StatusOr<const Architecture*> find_architecture(const Json& json) {
  const bool given = json.is_object() && json.contains("architectures");
  const Json found = given ? json["architectures"] : Json();
  if (!found.is_array() || found.size() != 1 || !found[0].is_string()) {
    return invalid_argument(
        "architectures: wanted a list of one name (docs/models.md has them), found {}",
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
  read_tensor_sizes(folder, (*architecture)->family, json);
  ModelDescription model;
  ASSIGN_OR_RETURN(model.config, parse_config(json, source, (*architecture)->name,
                                              (*architecture)->family, max_context_override));
  model.config.tie_disputed = part->tie_disputed;
  if (model.config.tie_word_embeddings) {
    model.config.own_head = own_head(**architecture, model.config, part->scope);
  }
  model.graph = build(**architecture, model.config, part->scope);
  const std::filesystem::path name = std::filesystem::absolute(folder).lexically_normal();
  model.graph.model = name.has_filename() ? name.filename() : name.parent_path().filename();
  return model;
}

}  // namespace lockstep
