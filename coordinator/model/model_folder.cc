// SPDX-License-Identifier: Apache-2.0
// Finds the Hugging Face cache like huggingface_hub does.
#include "coordinator/model/model_folder.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string_view>
#include <vector>

#include "base/first_names.h"
#include "base/source_dir.h"
#include "base/status.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kOriginal =
    "name the original model in Hugging Face layout; --quantize q4 makes it about as small";
constexpr std::string_view kConvert =
    "convert them (transformers: AutoModelForCausalLM.from_pretrained, then save_pretrained)";

// Weights in other formats than safetensors. The first row that matches a file or subfolder of the
// model's folder names the format.
struct Foreign {
  std::string_view name;  // One '*' matches any text.
  std::string_view what;
  std::string_view way_out;
};
constexpr Foreign kForeign[] = {
    {"adapter_config.json", "an adapter (LoRA) is no model by itself",
     "merge it into its base model (PEFT: merge_and_unload, then save_pretrained)"},
    {"*.gguf", "GGUF, llama.cpp's format, is not read", kOriginal},
    {"model_index.json", "a Diffusers pipeline makes images", "name a language model"},
    {"*.onnx", "ONNX is not read", kOriginal},
    {"onnx", "ONNX is not read", kOriginal},
    {"*.npz", "weights of MLX are not read", kOriginal},
    {"*.engine", "an engine of TensorRT is not read", kOriginal},
    {"model.bin", "weights of CTranslate2 are not read", kOriginal},
    {"params.json", "the publisher's own layout is not read",
     "name the same model in Hugging Face layout"},
    {"global_step*", "the state of a training with DeepSpeed is not read",
     "convert it (zero_to_fp32.py, then save_pretrained)"},
    {"pytorch_model*.bin", "pickles of PyTorch are not read, since they can run code", kConvert},
    {"*.pth", "pickles of PyTorch are not read, since they can run code", kConvert},
    {"*.pt", "pickles of PyTorch are not read, since they can run code", kConvert},
    {"*.ckpt", "pickles of PyTorch are not read, since they can run code", kConvert},
    {"*.h5", "weights of TensorFlow are not read", kConvert},
    {"*.msgpack", "weights of JAX are not read", kConvert},
};

// Tokenizers in other formats than tokenizer.json.
constexpr std::string_view kForeignTokenizers[] = {
    "tokenizer.model", "tekken.json", "tiktoken.model", "spiece.model",
    "*.tiktoken",      "vocab.json",  "vocab.txt",      "rwkv_vocab*.txt"};

bool fits(std::string_view name, std::string_view pattern) {
  const size_t star = pattern.find('*');
  if (star == pattern.npos) return name == pattern;
  const std::string_view before = pattern.substr(0, star);
  const std::string_view behind = pattern.substr(star + 1);
  return name.size() >= before.size() + behind.size() && name.starts_with(before) &&
         name.ends_with(behind);
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    names.push_back(it->path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

std::optional<std::string> first_fit(const std::vector<std::string>& names,
                                     std::string_view pattern) {
  const auto found =
      std::ranges::find_if(names, [&](const std::string& name) { return fits(name, pattern); });
  return found == names.end() ? std::nullopt : std::optional(*found);
}

// An error if a row of kForeign matches.
absl::Status check_foreign(const fs::path& folder) {
  const std::vector<std::string> names = names_in(folder);
  for (const Foreign& row : kForeign) {
    const auto name = first_fit(names, row.name);
    if (!name.has_value()) continue;
    return invalid_argument("{} holds {}: {}: {}", folder.string(), printable(*name), row.what,
                            row.way_out);
  }
  return absl::OkStatus();
}

// The demo is next to the installed, bundled or built binary.
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

// The folder that the variable names, with ~ expanded; nullopt if the variable is unset or empty.
std::optional<fs::path> folder_in_environment(const char* variable) {
  const char* value = std::getenv(variable);
  if (value == nullptr || *value == '\0') return std::nullopt;
  const std::string_view text = value;
  const char* home = std::getenv("HOME");
  if (home != nullptr && (text == "~" || text.starts_with("~/"))) {
    return fs::path(std::string(home) + std::string(text.substr(1)));
  }
  return fs::path(text);
}

fs::path hub_cache() {
  struct Place {
    const char* variable;
    const char* below;
  };
  constexpr Place kPlaces[] = {{"HF_HUB_CACHE", ""},
                               {"HUGGINGFACE_HUB_CACHE", ""},
                               {"HF_HOME", "hub"},
                               {"XDG_CACHE_HOME", "huggingface/hub"},
                               {"HOME", ".cache/huggingface/hub"}};
  for (const Place& place : kPlaces) {
    const auto folder = folder_in_environment(place.variable);
    if (folder.has_value()) return *place.below == '\0' ? *folder : *folder / place.below;
  }
  return {};
}

// The snapshot of the main branch in a folder of the cache, models--org--name.
std::optional<fs::path> find_snapshot(const fs::path& folder) {
  std::string revision;
  if (FILE* file = std::fopen((folder / "refs/main").c_str(), "r")) {
    char text[128] = {};
    if (std::fgets(text, sizeof(text), file) != nullptr) revision = text;
    std::fclose(file);
  }
  while (!revision.empty() && std::isspace(static_cast<unsigned char>(revision.back()))) {
    revision.pop_back();
  }
  std::error_code error;
  const fs::path snapshot = folder / "snapshots" / revision;
  if (revision.empty() || !fs::is_directory(snapshot, error)) return std::nullopt;
  return snapshot;
}

absl::StatusOr<fs::path> check_folder(const fs::path& folder) {
  std::error_code error;
  if (fs::exists(folder / "config.json", error)) return folder;
  RETURN_IF_ERROR(check_foreign(folder));
  if (const auto snapshot = find_snapshot(folder)) return check_folder(*snapshot);
  std::vector<std::string> models;
  for (const std::string& name : names_in(folder)) {
    if (fs::exists(folder / name / "config.json", error)) models.push_back(name);
  }
  if (!models.empty()) {
    return invalid_argument("{} has no config.json, but {} with one: name {} ({})", folder.string(),
                            count_of(std::ssize(models), "folder"),
                            models.size() == 1 ? "it" : "one", first_names(models));
  }
  return invalid_argument("{} has no config.json: name a folder in Hugging Face layout",
                          folder.string());
}

// Ollama stores GGUF files under names that do not end with .gguf.
bool is_gguf(const fs::path& path) {
  char magic[4] = {};
  std::ifstream(path, std::ios::binary).read(magic, sizeof(magic));
  return std::string_view(magic, sizeof(magic)) == "GGUF";
}

absl::Status describe_file(const fs::path& path) {
  const std::string name = is_gguf(path) ? ".gguf" : path.filename().string();
  for (const Foreign& row : kForeign) {
    if (!fits(name, row.name)) continue;
    return invalid_argument("{}: {}: {}", path.string(), row.what, row.way_out);
  }
  return invalid_argument("{} is a file: name the folder that holds config.json", path.string());
}

}  // namespace

bool looks_like_hub_name(const std::string& path) {
  return std::count(path.begin(), path.end(), '/') == 1 && path.front() != '/' &&
         path.front() != '.' && path.back() != '/';
}

absl::StatusOr<fs::path> find_model_folder(const std::string& path) {
  std::error_code error;
  if (path.empty()) {
    if (const auto demo = find_demo_model()) return *demo;
    return invalid_argument("the demo model is not next to this program: name a model folder");
  }
  if (fs::is_directory(path, error)) return check_folder(path);
  if (fs::exists(path, error)) {
    if (fs::path(path).filename() == "config.json") return fs::absolute(path).parent_path();
    return describe_file(path);
  }
  if (looks_like_hub_name(path)) {
    std::string folder = "models--" + path;
    folder.replace(folder.find('/'), 1, "--");
    const fs::path cache = hub_cache();
    if (const auto snapshot = find_snapshot(cache / folder)) return check_folder(*snapshot);
    return invalid_argument(
        "{} is neither a folder nor in the Hugging Face cache, {}: `hf download {}` fetches it",
        path, cache.string(), path);
  }
  return invalid_argument("there is no folder {}{}", path,
                          path.find(' ') == path.npos ? "" : " (a text is given by --prompt)");
}

bool has_weights(const fs::path& folder) {
  return std::ranges::any_of(names_in(folder), [](const std::string& name) {
    return fits(name, "*.safetensors.index.json") ||
           (fits(name, "*.safetensors") && !fits(name, "adapter*"));
  });
}

absl::Status check_weights(const fs::path& folder) {
  if (has_weights(folder)) return absl::OkStatus();
  RETURN_IF_ERROR(check_foreign(folder));
  return invalid_argument(
      "{}: must have weights in *.safetensors, found none; `hf download` fetches them, and "
      "--random-weights SEED runs without",
      folder.string());
}

std::string missing_tokenizer(const fs::path& folder) {
  const std::vector<std::string> names = names_in(folder);
  for (const std::string_view pattern : kForeignTokenizers) {
    const auto name = first_fit(names, pattern);
    if (!name.has_value()) continue;
    return fmt::format(
        "has no tokenizer.json, and {} is not read (transformers writes one: "
        "AutoTokenizer.from_pretrained, then save_pretrained)",
        printable(*name));
  }
  return "has no tokenizer.json";
}

}  // namespace lockstep
