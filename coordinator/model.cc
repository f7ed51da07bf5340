// SPDX-License-Identifier: Apache-2.0
#include "coordinator/model.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "base/json.h"
#include "base/source_dir.h"
#include "base/status.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kPageTokens = 16;

// The types that pages of keys and values may have.
std::optional<DType> kv_dtype_named(const std::string& name) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kI8}) {
    if (name == dtype_name(dtype)) return dtype;
  }
  return std::nullopt;
}

// Beside the binary as it is installed, bundled or built.
std::optional<fs::path> find_demo_model() {
  std::error_code error;
  const fs::path binary = fs::read_symlink("/proc/self/exe", error);
  const fs::path folder = binary.parent_path();
  for (const fs::path& candidate : {folder / "../share/lockstep/demo", folder / "demo",
                                    fs::path(LOCKSTEP_SOURCE_DIR) / "demo"}) {
    if (fs::exists(candidate / "config.json", error)) return candidate.lexically_normal();
  }
  return std::nullopt;
}

// The snapshot of `org/name` that the cache's main branch points to.
std::optional<fs::path> find_in_hub_cache(const std::string& name) {
  const char* home = std::getenv("HOME");
  const char* hf_home = std::getenv("HF_HOME");
  const char* cache = std::getenv("HF_HUB_CACHE");
  const fs::path root = cache != nullptr     ? fs::path(cache)
                        : hf_home != nullptr ? fs::path(hf_home) / "hub"
                        : home != nullptr    ? fs::path(home) / ".cache/huggingface/hub"
                                             : fs::path();
  std::string folder = "models--" + name;
  folder.replace(folder.find('/'), 1, "--");
  std::error_code error;
  std::string revision;
  if (FILE* file = std::fopen((root / folder / "refs/main").c_str(), "r")) {
    char text[128] = {};
    if (std::fgets(text, sizeof(text), file) != nullptr) revision = text;
    std::fclose(file);
  }
  while (!revision.empty() && std::isspace(static_cast<unsigned char>(revision.back()))) {
    revision.pop_back();
  }
  const fs::path snapshot = root / folder / "snapshots" / revision;
  if (revision.empty() || !fs::exists(snapshot / "config.json", error)) return std::nullopt;
  return snapshot;
}

bool has_weights(const fs::path& folder) {
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json")) return true;
  }
  return false;
}

bool looks_like_hub_name(const std::string& path) {
  return std::count(path.begin(), path.end(), '/') == 1 && path.front() != '/' &&
         path.front() != '.' && path.back() != '/';
}

// Some checkpoints leave out the name that all others begin with: "h.0" for "transformer.h.0".
void use_short_names(const Checkpoint& checkpoint, Graph& graph) {
  const std::string& first = graph.parameters().front().pieces.front().source();
  const std::string outer = first.substr(0, first.find('.') + 1);
  if (checkpoint.find(first) != nullptr || outer.empty()) return;
  if (checkpoint.find(first.substr(outer.size())) != nullptr) graph.rename(outer, "");
}

}  // namespace

absl::StatusOr<fs::path> find_model_folder(const std::string& path) {
  std::error_code error;
  if (path.empty()) {
    if (const auto demo = find_demo_model()) return *demo;
    return invalid_argument("the demo model is not beside this program: name a model folder");
  }
  if (fs::exists(fs::path(path) / "config.json", error)) return fs::path(path);
  if (fs::is_regular_file(path, error) && fs::path(path).filename() == "config.json") {
    return fs::absolute(path).parent_path();
  }
  if (fs::is_directory(path, error)) {
    return invalid_argument("{} has no config.json: name a folder in Hugging Face layout", path);
  }
  if (fs::exists(path, error)) {
    return invalid_argument("{} is a file: name the folder that holds config.json", path);
  }
  if (looks_like_hub_name(path)) {
    if (const auto snapshot = find_in_hub_cache(path)) return *snapshot;
    return invalid_argument(
        "{} is neither a folder nor in the Hugging Face cache: `hf download {}` fetches it", path,
        path);
  }
  return invalid_argument("there is no folder {}{}", path,
                          path.find(' ') == path.npos ? "" : " (a text is given by --prompt)");
}

absl::StatusOr<std::unique_ptr<Model>> Model::open(const ModelOptions& options) {
  std::unique_ptr<Model> model(new Model);
  model->options_ = options;
  if (options.dtype != "auto" && options.dtype != "float32" && options.dtype != "bfloat16") {
    return invalid_argument("--dtype {}: wanted auto, float32 or bfloat16", options.dtype);
  }
  if (options.kv_dtype != "auto" && !kv_dtype_named(options.kv_dtype).has_value()) {
    return invalid_argument("--kv-dtype {}: wanted auto, float32, bfloat16 or int8",
                            options.kv_dtype);
  }
  ASSIGN_OR_RETURN(model->folder_, find_model_folder(options.path));
  const bool is_file = fs::path(options.path).filename() == "config.json";
  ASSIGN_OR_RETURN(model->description_,
                   describe_model(model->folder_, options.ignore_config, options.max_context));
  if (looks_like_hub_name(options.path) && !is_file) {
    model->description_.graph.model = options.path;
  }
  model->name_ = options.name.empty() ? model->description_.graph.model : options.name;
  RETURN_IF_ERROR(model->choose_scheme());
  ASSIGN_OR_RETURN(model->generation_config_, read_generation_config(model->folder_));
  std::error_code error;
  if (fs::exists(model->folder_ / "tokenizer.json", error)) {
    ASSIGN_OR_RETURN(model->tokenizer_, Tokenizer::load(model->folder_));
  }
  model->chat_template_ = ChatTemplate::load(model->folder_, options.chat_template);
  if (!options.chat_template.empty()) RETURN_IF_ERROR(model->chat_template_.status());
  const bool wanted = options.weight_files == WeightFiles::kNeeded || has_weights(model->folder_);
  if (wanted && !options.random_weights.has_value()) {
    ASSIGN_OR_RETURN(model->checkpoint_, Checkpoint::open(model->folder_));
    use_short_names(*model->checkpoint_, model->description_.graph);
  }
  program::Limits& limits = model->limits_;
  limits.set_context(model->config().context);
  limits.set_rows(options.max_rows);
  limits.set_sequences(std::min(options.max_sequences, options.max_rows));
  limits.set_outputs(limits.sequences());
  limits.set_page_tokens(kPageTokens);
  return model;
}

absl::StatusOr<const ChatTemplate*> Model::chat_template() const {
  if (!chat_template_.ok()) return chat_template_.status();
  return &*chat_template_;
}

int64_t Model::max_pages() const { return limits_.sequences() * pages_of(limits_.context()); }

int64_t Model::pages_of(int64_t positions) const {
  return (positions + limits_.page_tokens() - 1) / limits_.page_tokens();
}

absl::Status Model::choose_scheme() {
  const std::string& stored = config().scheme;
  const std::string& wanted = options_.quantize;
  if (!wanted.empty() && find_scheme(wanted) == nullptr) {
    return invalid_argument("--quantize {}: {}", wanted, no_such_scheme(wanted));
  }
  if (!stored.empty() && find_scheme(stored) == nullptr) {
    return invalid_argument("{}: quantization_config: scheme {}: {}; quantize the original again",
                            (folder_ / "config.json").string(), printable(stored),
                            no_such_scheme(stored));
  }
  if (!stored.empty() && !wanted.empty() && stored != wanted) {
    return invalid_argument(
        "--quantize {}: {} is already quantized as {}: leave --quantize out, or name the original "
        "model",
        wanted, name_, stored);
  }
  scheme_ = find_scheme(stored.empty() ? wanted : stored);
  return absl::OkStatus();
}

DType Model::plain_dtype(const std::string& source) const {
  if (options_.dtype == "float32") return DType::kF32;
  if (options_.dtype == "bfloat16") return DType::kBF16;
  const TensorInfo* stored = checkpoint_.has_value() ? checkpoint_->find(source) : nullptr;
  const bool known = stored != nullptr && widens(stored->dtype);
  const DType dtype = known ? stored->dtype : config().dtype;
  return dtype == DType::kBF16 ? DType::kBF16 : DType::kF32;
}

DType Model::weight_dtype(const std::string& source, program::Role role) const {
  if (options_.embedding_in_file && role == program::EMBEDDING && checkpoint_.has_value()) {
    const TensorInfo* stored = checkpoint_->find(source);
    if (stored != nullptr && widens(stored->dtype)) return stored->dtype;
  }
  return scheme_ != nullptr ? scheme_->kind_of(role) : plain_dtype(source);
}

DType Model::linear_dtype() const {
  for (const Parameter& parameter : graph().parameters()) {
    if (parameter.role == program::LINEAR_WEIGHT && !parameter.pieces.empty() &&
        plain_dtype(parameter.pieces[0].source()) == DType::kBF16) {
      return DType::kBF16;
    }
  }
  return DType::kF32;
}

CompileOptions Model::compile_options(std::vector<WorkerFacts> workers) const {
  CompileOptions options;
  options.workers = std::move(workers);
  options.strategy = options_.strategy;
  options.limits = limits_;
  options.weight_dtype = [this](const std::string& source, program::Role role) {
    return weight_dtype(source, role);
  };
  options.kv_dtype = kv_dtype_named(options_.kv_dtype).value_or(linear_dtype());
  return options;
}

absl::StatusOr<std::vector<program::Program>> Model::compile(
    std::vector<WorkerFacts> workers) const {
  return lockstep::compile(graph(), compile_options(std::move(workers)));
}

}  // namespace lockstep
