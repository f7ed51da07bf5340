// SPDX-License-Identifier: Apache-2.0
// `lockstep verify`: runs a prompt with workers and with Hugging Face transformers, and compares
// the values.
#include "tools/verify/verify.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "base/numbers/quantization.h"
#include "base/status.h"
#include "sharding/layout/value_parts.h"
#include "sharding/scheme.h"
#include "tools/commands/command.h"
#include "tools/commands/measuring/formed_group.h"
#include "tools/terminal.h"
#include "tools/verify/report.h"
#include "tools/verify/transformers.h"

namespace lockstep {
namespace {

constexpr char kPrompt[] = "The quick brown fox jumps over the lazy dog, and nobody minds at all.";
constexpr int64_t kMadeUpTokens = 24;  // The prompt's length for a model without a tokenizer.

struct VerifyFlags {
  RunOptions run;
  TransformersOptions transformers;
  std::string prompt;
  std::vector<int32_t> prompt_ids;
  std::string reference;
  std::string keep;
  double tolerance = 0;  // 0: chosen by the type of the weights.
  bool json = false;
};

using Ids = std::vector<int32_t>;

absl::Status check_flags(const VerifyFlags& flags) {
  const bool prompt = !flags.prompt.empty() || !flags.prompt_ids.empty();
  if (!flags.reference.empty() && prompt) {
    return invalid_argument(
        "--reference {}: cannot be combined with --prompt, because it has its own; remove --prompt",
        flags.reference);
  }
  if (!flags.reference.empty() && !flags.keep.empty()) {
    return invalid_argument(
        "--keep {}: cannot be combined with --reference, which computes nothing to keep",
        flags.keep);
  }
  if (!flags.prompt.empty() && !flags.prompt_ids.empty()) {
    return invalid_argument("must have one of --prompt and --prompt-ids, found both");
  }
  if (flags.run.model.random_weights.has_value()) {
    return invalid_argument(
        "--random-weights: cannot be used, because another program could not read the weights");
  }
  return absl::OkStatus();
}

// The prompt of the flags, or one that every model can compute.
absl::StatusOr<Ids> prompt_of(const VerifyFlags& flags, const Model& model) {
  if (!flags.prompt_ids.empty()) return flags.prompt_ids;
  if (model.tokenizer() != nullptr) {
    return model.tokenizer()->encode(flags.prompt.empty() ? kPrompt : flags.prompt);
  }
  if (!flags.prompt.empty()) {
    return invalid_argument("{}: use --prompt-ids", model.without_tokenizer());
  }
  Ids ids;
  const int64_t count = std::min(kMadeUpTokens, model.max_context());
  for (int64_t i = 0; i < count; ++i) {
    ids.push_back(static_cast<int32_t>((3 + 37 * i) % model.config().vocab_size));
  }
  return ids;
}

absl::Status check_prompt(const Ids& ids, const Model& model) {
  const auto count = static_cast<int64_t>(ids.size());
  if (count < 1 || count > model.max_context()) {
    return invalid_argument("prompt: must be 1 to {1} tokens, the model's context, found {0}",
                            count, model.max_context());
  }
  for (const int32_t id : ids) {
    if (id >= 0 && id < model.config().vocab_size) continue;
    return invalid_argument("token: must be 0 to {1}, found {0}", id,
                            model.config().vocab_size - 1);
  }
  return absl::OkStatus();
}

using Folder = std::shared_ptr<const std::filesystem::path>;

// Makes a temporary folder that only this user can enter. It is deleted with the last reference.
absl::StatusOr<Folder> make_folder() {
  std::error_code error;
  std::string name =
      (std::filesystem::temp_directory_path(error) / "lockstep-verify-XXXXXX").string();
  if (error || mkdtemp(name.data()) == nullptr) {
    return failed_precondition("could not make a folder {}: {}", name, error_text(errno));
  }
  return Folder(new std::filesystem::path(name), [](const std::filesystem::path* path) {
    std::error_code ignored;
    std::filesystem::remove_all(*path, ignored);
    delete path;
  });
}

// The reference's file, and what computed it.
struct ReferenceFile {
  Folder folder;  // Its temporary folder; null: none.
  std::filesystem::path path;
  std::string by;
};

absl::StatusOr<ReferenceFile> reference_of(const VerifyFlags& flags, const Model& model) {
  if (!flags.reference.empty()) return ReferenceFile{nullptr, flags.reference, flags.reference};
  ASSIGN_OR_RETURN(const Ids ids, prompt_of(flags, model));
  RETURN_IF_ERROR(check_prompt(ids, model));
  ReferenceFile file;
  ASSIGN_OR_RETURN(file.folder, make_folder());
  file.path = *file.folder / "reference.safetensors";
  TransformersOptions options = flags.transformers;
  options.model = model.folder();
  ProgressLine line;
  line.spin("transformers computes the prompt");
  ASSIGN_OR_RETURN(file.by, run_transformers(options, ids, file.path));
  if (flags.keep.empty()) return file;
  std::error_code error;
  std::filesystem::copy_file(file.path, flags.keep,
                             std::filesystem::copy_options::overwrite_existing, error);
  if (error) return invalid_argument("--keep {}: {}", flags.keep, error.message());
  return file;
}

// Options to open the model again for the prompt: one output per row of a step.
ModelOptions options_for(const Model& model, int64_t tokens, int64_t chunk) {
  ModelOptions options = model.options();
  options.max_rows = std::min(chunk, tokens);
  options.max_sequences = options.max_rows;
  return options;
}

absl::StatusOr<Verification> run(const VerifyFlags& flags, const Model& model,
                                 const Reference& reference,
                                 const std::vector<program::Program>& programs, double tolerance,
                                 Interrupt& interrupt) {
  ASSIGN_OR_RETURN(std::vector<WorkerFacts> workers,
                   alike_workers(flags.run.service.cluster.workers));
  ASSIGN_OR_RETURN(const std::vector<ValueParts> parts,
                   value_parts(model.graph(), model.compile_options(std::move(workers))));
  ASSIGN_OR_RETURN(ServiceOptions service, flags.run.service_options());
  const auto tokens = static_cast<int64_t>(reference.tokens().size());
  service.cluster.assignment.set_max_pages(model.pages_of(tokens));
  ASSIGN_OR_RETURN(const FormedGroup group,
                   FormedGroup::form(model, std::move(service), interrupt));
  const Interrupt::Actions on_signal = interrupt.on_signal([&] { group->abort(); });
  ProgressLine line;
  line.spin("comparing values");
  return verify(model.graph(), programs, parts, reference,
                {.tolerance = tolerance, .rows = model.options().max_rows}, *group);
}

// Models with rounded weights and inputs differ more from float32: these bounds are 1.5 times what
// the demo's six layers need.
double tolerance_of(const VerifyFlags& flags, const Model& model) {
  if (flags.tolerance > 0) return flags.tolerance;
  if (const Scheme* scheme = model.scheme(); scheme != nullptr) {
    return quantization(scheme->linear)->bits == 8 ? 0.15 : 0.7;
  }
  const bool exact = model.linear_dtype() == DType::kF32 &&
                     (flags.run.model.kv_dtype == "auto" || flags.run.model.kv_dtype == "float32");
  return exact ? 2e-4 : 5e-2;
}

absl::Status verify_model(const VerifyFlags& flags, Interrupt& interrupt, int* exit_code) {
  RETURN_IF_ERROR(check_flags(flags));
  ASSIGN_OR_RETURN(const std::unique_ptr<Model> named, flags.run.open());
  absl::StatusOr<ReferenceFile> file = reference_of(flags, *named);
  if (!file.ok() && interrupt.signalled()) return absl::CancelledError("interrupted");
  RETURN_IF_ERROR(file.status());
  ASSIGN_OR_RETURN(const Reference reference, Reference::open(file->path));
  RETURN_IF_ERROR(check_prompt(reference.tokens(), *named));
  const auto tokens = static_cast<int64_t>(reference.tokens().size());
  ASSIGN_OR_RETURN(const std::unique_ptr<Model> model,
                   open_model(options_for(*named, tokens, flags.run.prefill_chunk())));
  ASSIGN_OR_RETURN(std::vector<WorkerFacts> workers,
                   alike_workers(flags.run.service.cluster.workers));
  ASSIGN_OR_RETURN(const std::vector<program::Program> programs, model->compile(workers));
  const double tolerance = tolerance_of(flags, *model);
  ASSIGN_OR_RETURN(const Verification verification,
                   run(flags, *model, reference, programs, tolerance, interrupt));
  const VerifyContext context{
      .program = &programs[0], .reference = file->by, .tokens = tokens, .tolerance = tolerance};
  fmt::print("{}",
             flags.json ? verify_json(verification, context) : verify_text(verification, context));
  if (verification.first) *exit_code = 1;
  return absl::OkStatus();
}

}  // namespace

std::shared_ptr<Command> add_verify(CLI::App& parent) {
  auto command = std::make_shared<Command>();
  auto flags = std::make_shared<VerifyFlags>();
  flags->run.model.dtype = "float32";
  command->app = parent.add_subcommand(
      "verify",
      "Computes a prompt with MODEL here and with Hugging Face transformers, both in float32 "
      "on\nCPUs, and compares the outputs of linears, norms and layers with the same "
      "names.\nPrints the largest error of each layer. If an operator differs, verify prints the "
      "first such\noperator, and its exit code is 1. Needs Python with torch and transformers:\n\n "
      " python3 -m "
      "venv hf && hf/bin/pip install torch transformers\n  lockstep verify MODEL --workers 3 "
      "--python hf/bin/python");
  CLI::App& app = *command->app;
  add_flags(app, flags->run.model_flags());
  add_flags(app, flags->run.group_flags());
  add_flags(app,
            {{"--prompt", &flags->prompt, "The text of the prompt (default: a built-in sentence)"},
             {"--prompt-ids", &flags->prompt_ids, "Comma-separated token ids, in place of --prompt",
              FlagValues{.has_commas = true}},
             {"--python", &flags->transformers.python, "An interpreter that has transformers",
              FlagValues{.form = "FILE"}},
             {"--trust-remote-code", &flags->transformers.trust_remote_code,
              "Let transformers run the modeling code in MODEL's folder"},
             {"--keep", &flags->keep, "Keep the results of transformers in this file",
              FlagValues{.form = "FILE"}},
             {"--reference", &flags->reference,
              "Use the prompt and values in this file, which --keep wrote; Python is not run",
              FlagValues{.form = "FILE"}},
             {"--tolerance", &flags->tolerance,
              "Max error of an operator's output, divided by its largest element (default: 2e-4; "
              "5e-2 with "
              "bfloat16 weights or rounded KV pages; 0.15 with weights of 8 bits, 0.7 with 4)",
              FlagValues{.min = 0, .max = 1}},
             {"--json", &flags->json, "One JSON object on one line, with every value's error"}});
  app.get_option("--prompt-ids")->allow_extra_args();
  auto* const shared = command.get();
  command->run = [flags, shared](Interrupt& interrupt) {
    return verify_model(*flags, interrupt, &shared->exit_code);
  };
  return command;
}

}  // namespace lockstep
