// SPDX-License-Identifier: Apache-2.0
#include "models/models.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/nearest.h"
#include "base/system/file.h"
#include "models/architecture.h"
#include "models/config/ignored_keys.h"
#include "models/config/python_json.h"
#include "models/config/quantization.h"
#include "models/config/wrappers.h"
#include "models/families/families.h"

namespace lockstep {
namespace {

constexpr int64_t kMaxConfigBytes = 16 << 20;

constexpr Architectures (*kFamilies[])() = {
#define LOCKSTEP_FAMILY(name) families::name::rows,
#include "models/families/families.inc"
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

// The name of a text model's tensor in a checkpoint; `scope` is TextPart::scope.
std::string in_scope(const std::string& name, const std::string& scope) {
  if (scope.empty()) return name;
  if (!scope.starts_with("model.")) return scope + "." + name;
  return name.starts_with("model.") ? scope + name.substr(5) : name;
}

Graph build_graph(const LanguageModel& model, const std::string& scope) {
  Graph graph;
  const bool inside = scope.starts_with("model.");
  {
    std::optional<Scope> wrapped;  // Refers to the graph, so it must end before the graph is moved.
    if (!scope.empty() && !inside) wrapped.emplace(graph, scope);
    build(graph, model);
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

absl::StatusOr<int64_t> context_of(const LanguageModel& model, int64_t override) {
  const int64_t bound = model.max_positions == 0 ? INT64_MAX : model.max_positions;
  const auto positions = static_cast<double>(model.sizes.positions);
  if (override == 0) return std::min(model.sizes.positions, bound);
  const int64_t max = std::min(static_cast<int64_t>(positions * model.reach), bound);
  if (override >= 1 && override <= max) return override;
  return invalid_argument(
      "--max-context {}: must be 1 to {}, the limit of max_position_embeddings, the rotary scaling "
      "and the supported kinds of attention",
      override, max);
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

KeyNames keys_of(const Architecture& architecture) {
  Keys keys{Json::object()};
  architecture.read(keys);
  return keys.names();
}

const KeyNames& keys_of_all() {
  static const KeyNames all = [] {
    KeyNames names;
    for (const Architecture& known : architectures()) names.merge(keys_of(known));
    return names;
  }();
  return all;
}

absl::StatusOr<ReadModel> read_model(const Architecture& architecture, Json json, KeySource source,
                                     int64_t max_context_override) {
  source.known = [](std::string_view key) { return keys_of_all().contains(key); };
  Keys keys(std::move(json), std::move(source));
  keys.rename("compression_config", "quantization_config");
  const absl::StatusOr<std::string> scheme = read_quantization(keys.json("quantization_config"));
  keys.fail(scheme.status());
  ReadModel read = {.model = architecture.read(keys), .config = {}};
  const LanguageModel& model = read.model;
  const Sizes& sizes = model.sizes;
  read.config = {
      .architecture = std::string(architecture.name),
      .vocab_size = sizes.vocab,
      .hidden_size = sizes.hidden,
      .embedding_width = model.embedding_width > 0 ? model.embedding_width : sizes.hidden,
      .intermediate_size = sizes.ffn,
      .layers = sizes.layers,
      .heads = sizes.heads,
      .kv_heads = sizes.kv_heads,
      .head_dim = sizes.head_dim,
      .experts = {.count = model.mixture.count,
                  .chosen = model.mixture.chosen,
                  .size = model.mixture.size,
                  .either_layout = model.either_layout},
      .dtype = read_dtype(keys),
      .scheme = scheme.ok() ? *scheme : "",
      .tie_word_embeddings = model.tied,
      .bos_token_ids = token_ids(keys, "bos_token_id", sizes.vocab),
      .eos_token_ids = token_ids(keys, "eos_token_id", sizes.vocab),
  };
  RETURN_IF_ERROR(keys.finish());
  ASSIGN_OR_RETURN(read.config.context, context_of(model, max_context_override));
  return read;
}

absl::StatusOr<ModelDescription> describe_model(const std::filesystem::path& folder,
                                                const std::vector<std::string>& ignore_config_keys,
                                                int64_t max_context_override) {
  const std::filesystem::path path = folder / "config.json";
  ASSIGN_OR_RETURN(const std::string text, read_file(path, kMaxConfigBytes));
  ASSIGN_OR_RETURN(Json json, parse_python_json(text, path.string()));
  ASSIGN_OR_RETURN(Json ignored, ignore_keys(json, ignore_config_keys));
  RETURN_IF_ERROR(check_quantization_file(folder, json));
  const auto in_file = [&](const absl::Status& status) {
    return invalid_argument("{}: {}", path.string(), message_of(status));
  };
  absl::StatusOr<TextPart> part = unwrap_text(json);
  if (!part.ok()) return in_file(part.status());
  const absl::StatusOr<const Architecture*> architecture = find_architecture(json);
  if (!architecture.ok()) return in_file(architecture.status());
  KeySource source = {.folder = folder,
                      .object = part->object,
                      .beside = std::move(part->beside),
                      .ignored = std::move(ignored),
                      .defaults = std::move(part->defaults)};
  absl::StatusOr<ReadModel> read =
      read_model(**architecture, std::move(json), std::move(source), max_context_override);
  if (!read.ok()) return in_file(read.status());
  ModelDescription model = {.config = std::move(read->config),
                            .graph = build_graph(read->model, part->scope)};
  model.config.tie_disputed = part->tie_disputed;
  if (read->model.tied) {
    model.config.own_head = in_scope(fmt::format("{}.weight", read->model.head), part->scope);
  }
  const std::filesystem::path name = std::filesystem::absolute(folder).lexically_normal();
  model.graph.model = name.has_filename() ? name.filename() : name.parent_path().filename();
  return model;
}

}  // namespace lockstep
