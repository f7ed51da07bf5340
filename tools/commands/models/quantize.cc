// SPDX-License-Identifier: Apache-2.0
// `lockstep quantize`: converts a model's folder to small integers. The folder is made next to OUT
// and renamed at the end, so that OUT is complete or does not exist.
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/numbers/quantization.h"
#include "base/status.h"
#include "base/system/cpu.h"
#include "base/threads/thread_pool.h"
#include "checkpoint/quantize_checkpoint.h"
#include "models/config/python_json.h"
#include "tools/commands/command.h"
#include "tools/terminal.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMaxConfigBytes = 16 << 20;
constexpr char kTemplates[] = "additional_chat_templates";

struct QuantizeFlags {
  std::string model;
  std::string out;
  std::string scheme = "q8";
  std::vector<std::string> ignore_config;
  int threads = 0;
  bool json = false;
};

// Files that are copied besides weights and config.json. Others (a readme, weights in other
// formats) are not.
bool is_copied(const std::string& name) {
  for (const char* start : {"tokenizer", "generation_config", "special_tokens_map", "added_tokens",
                            "vocab", "merges", "chat_template", "LICENSE", "NOTICE"}) {
    if (name.starts_with(start)) return true;
  }
  return false;
}

absl::Status file_error(const fs::path& path, const std::error_code& error) {
  return failed_precondition("{}: {}", path.string(), error.message());
}

// Copies the selected files of one folder.
absl::Status copy_files(const fs::path& from, const fs::path& to,
                        bool (*is_copied)(const std::string& name)) {
  std::error_code error;
  for (fs::directory_iterator it(from, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (!it->is_regular_file(error) || !is_copied(name)) continue;
    fs::copy_file(it->path(), to / name, error);
    if (error) return file_error(to / name, error);
  }
  return error ? file_error(from, error) : absl::OkStatus();
}

absl::Status copy_templates(const fs::path& from, const fs::path& to) {
  std::error_code error;
  if (!fs::is_directory(from, error)) return absl::OkStatus();
  if (!fs::create_directory(to, error)) return file_error(to, error);
  return copy_files(from, to, [](const std::string& name) { return name.ends_with(".jinja"); });
}

// Writes config.json with the scheme, and with the type that determines the type of KV pages.
absl::Status write_config(const Model& model, const fs::path& to, const std::string& scheme) {
  const fs::path path = model.folder() / "config.json";
  ASSIGN_OR_RETURN(const std::string text, read_file(path, kMaxConfigBytes));
  ASSIGN_OR_RETURN(Json config, parse_python_json(text, path.string()));
  config.erase("dtype");
  config["torch_dtype"] = dtype_name(model.linear_dtype());
  config["quantization_config"] = {
      {"quant_method", "lockstep"}, {"scheme", scheme}, {"version", 1}};
  std::ofstream file(to / "config.json", std::ios::binary);
  file << config.dump(2) << "\n";
  if (file.flush()) return absl::OkStatus();
  return failed_precondition("{}: could not write it: {}", (to / "config.json").string(),
                             error_text(errno));
}

// The kind of every tensor that the graph reads as a matrix.
absl::StatusOr<std::map<std::string, DType>> kinds_of(const Model& model, const Scheme& scheme) {
  std::map<std::string, DType> kinds;
  for (const Parameter& parameter : model.graph().parameters()) {
    const DType kind = scheme.kind_of(parameter.role);
    if (!quantization(kind)) continue;
    for (const program::Piece& piece : parameter.pieces) {
      if (piece.transpose() || piece.unit_rows() || piece.interleaved() > 0) {
        return failed_precondition(
            "{}: this tensor is changed when it is loaded, and `lockstep quantize` cannot write "
            "the changed form; use --quantize when you load the model",
            printable(piece.source()));
      }
      kinds.emplace(piece.source(), kind);
    }
  }
  return kinds;
}

// The temporary folder of OUT; deleted unless it was renamed.
class PartialFolder {
 public:
  static absl::StatusOr<std::unique_ptr<PartialFolder>> open(fs::path out) {
    std::error_code error;
    out = fs::absolute(out).lexically_normal();
    if (!out.has_filename()) out = out.parent_path();
    if (fs::exists(out, error) && !(fs::is_directory(out, error) && fs::is_empty(out, error))) {
      return invalid_argument(
          "{}: must be a new or empty folder, found an existing one; name another", out.string());
    }
    fs::create_directories(out.parent_path(), error);
    std::unique_ptr<PartialFolder> partial(new PartialFolder);
    partial->out_ = out;
    partial->folder_ = out.string() + fmt::format(".partial-{}", getpid());
    if (!fs::create_directory(partial->folder_, error) || error) {
      return failed_precondition("{}: could not make this folder: {}", partial->folder_.string(),
                                 error.message());
    }
    return partial;
  }
  ~PartialFolder() {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }
  const fs::path& folder() const { return folder_; }
  absl::Status publish() {
    std::error_code error;
    fs::rename(folder_, out_, error);
    return error ? file_error(out_, error) : absl::OkStatus();
  }

 private:
  PartialFolder() = default;
  fs::path out_;
  fs::path folder_;
};

int64_t tensor_bytes(const Checkpoint& checkpoint) {
  int64_t bytes = 0;
  for (const TensorInfo& tensor : checkpoint.tensors()) bytes += tensor.end - tensor.begin;
  return bytes;
}

void report(const QuantizeFlags& flags, int64_t before, int64_t after) {
  if (flags.json) {
    const nlohmann::ordered_json json = {
        {"out", flags.out}, {"scheme", flags.scheme}, {"bytes_before", before}, {"bytes", after}};
    fmt::print("{}\n", json.dump());
  } else {
    say(fmt::format("{}: {} in {}, {} before", flags.out, human_bytes(after), flags.scheme,
                    human_bytes(before)));
  }
}

absl::Status quantize(const QuantizeFlags& flags, Interrupt& interrupt) {
  const Scheme* scheme = find_scheme(flags.scheme);
  if (scheme == nullptr) {
    return invalid_argument("--scheme {}: {}", flags.scheme, no_such_scheme(flags.scheme));
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<Model> model,
                   open_model({.path = flags.model, .ignore_config = flags.ignore_config}));
  if (model->scheme() != nullptr) {
    return invalid_argument("{} is already quantized as {}: name the original model", model->name(),
                            model->scheme()->name);
  }
  std::atomic<bool> cancelled{false};
  ProgressLine line;
  QuantizeOptions options;
  ASSIGN_OR_RETURN(options.kinds, kinds_of(*model, *scheme));
  options.progress = [&](int64_t done, int64_t all) { line.bar("quantizing", done, all); };
  options.cancelled = [&] { return cancelled.load(); };
  ASSIGN_OR_RETURN(const std::unique_ptr<PartialFolder> partial, PartialFolder::open(flags.out));
  RETURN_IF_ERROR(write_config(*model, partial->folder(), flags.scheme));
  RETURN_IF_ERROR(copy_files(model->folder(), partial->folder(), is_copied));
  RETURN_IF_ERROR(copy_templates(model->folder() / kTemplates, partial->folder() / kTemplates));
  ThreadPool threads(flags.threads > 0 ? flags.threads : usable_cores());
  const Interrupt::Actions on_signal = interrupt.on_signal([&] { cancelled = true; });
  const absl::StatusOr<int64_t> bytes =
      quantize_checkpoint(*model->checkpoint(), partial->folder(), options, threads);
  line.clear();
  RETURN_IF_ERROR(bytes.status());
  RETURN_IF_ERROR(partial->publish());
  report(flags, tensor_bytes(*model->checkpoint()), *bytes);
  return absl::OkStatus();
}

}  // namespace

std::shared_ptr<Command> add_quantize(CLI::App& parent) {
  auto command = std::make_shared<Command>();
  auto flags = std::make_shared<QuantizeFlags>();
  command->app = parent.add_subcommand(
      "quantize",
      "Writes MODEL with rounded weights to the new folder OUT, which loads faster and uses less "
      "disk space.\nOUT gives the same bits as MODEL with --quantize.");
  CLI::App& app = *command->app;
  add_flags(
      app,
      {{"MODEL", &flags->model, "A folder in Hugging Face layout, or org/name in the cache",
        FlagValues{.form = "FOLDER"}},
       {"OUT", &flags->out, "The folder to make; an existing one must be empty",
        FlagValues{.form = "FOLDER"}},
       {"--scheme", &flags->scheme, "How weights are rounded: " + scheme_names(),
        FlagValues{.form = scheme_names("|")}},
       {"--ignore-config", &flags->ignore_config, "A key of config.json to ignore (repeatable)"},
       {"--threads", &flags->threads, "Threads (default: all cores)",
        FlagValues{.min = 0, .max = 1024}},
       {"--json", &flags->json, "One JSON object on one line"}});
  app.get_option("MODEL")->required();
  app.get_option("OUT")->required();
  command->run = [flags](Interrupt& interrupt) { return quantize(*flags, interrupt); };
  return command;
}

}  // namespace lockstep
