// SPDX-License-Identifier: Apache-2.0
#include "coordinator/model/model.h"

#include <algorithm>

#include "base/first_names.h"
#include "base/status.h"
#include "coordinator/model/model_folder.h"
#include "coordinator/text/template/template_tags.h"
#include "models/tensor_check.h"
#include "models/tensor_names.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kPageTokens = 16;

// The type of KV pages with this name; nullopt: there is none.
std::optional<DType> kv_dtype_named(const std::string& name) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kI8}) {
    if (name == dtype_name(dtype)) return dtype;
  }
  return std::nullopt;
}

// A note on the parts of conversations that a template leaves out; "": none.
std::string note_of(const ChatTemplate& chat_template) {
  const TemplateTraits& traits = chat_template.traits(/*has_tools=*/true);
  if (!chat_template.traits(/*has_tools=*/false).asked) {
    return "the chat template does not show every turn of a plain conversation: other omissions "
           "are not checked";
  }
  const bool shows_calls = traits.calls == Fate::kShown;
  if (traits.tools == Fate::kLeftOut && shows_calls) {
    return "the chat template shows tool calls, but no tools: a request's tools are not in its "
           "prompt";
  }
  if (traits.tools != Fate::kShown || shows_calls) return "";
  return "the chat template shows tools, but no tool calls: those of earlier turns are written as "
         "JSON into the text";
}

}  // namespace

absl::StatusOr<std::unique_ptr<Model>> Model::open(const ModelOptions& options) {
  std::unique_ptr<Model> model(new Model);
  model->options_ = options;
  if (options.dtype != "auto" && options.dtype != "float32" && options.dtype != "bfloat16") {
    return invalid_argument("--dtype: must be auto, float32 or bfloat16, found {}", options.dtype);
  }
  if (options.kv_dtype != "auto" && !kv_dtype_named(options.kv_dtype).has_value()) {
    return invalid_argument("--kv-dtype: must be auto, float32, bfloat16 or int8, found {}",
                            options.kv_dtype);
  }
  ASSIGN_OR_RETURN(model->folder_, find_model_folder(options.path));
  const bool needs_weights = options.weight_files == WeightFiles::kNeeded;
  if (needs_weights && !options.random_weights.has_value()) {
    RETURN_IF_ERROR(check_weights(model->folder_));
  }
  const bool is_file = fs::path(options.path).filename() == "config.json";
  ASSIGN_OR_RETURN(model->description_,
                   describe_model(model->folder_, options.ignore_config, options.max_context));
  if (looks_like_hub_name(options.path) && !is_file) {
    model->description_.graph.model = options.path;
  }
  model->names_ = options.names;
  if (model->names_.empty()) model->names_ = {model->description_.graph.model};
  RETURN_IF_ERROR(model->choose_scheme());
  RETURN_IF_ERROR(model->read_defaults());
  std::error_code error;
  if (fs::exists(model->folder_ / "tokenizer.json", error)) {
    ASSIGN_OR_RETURN(model->tokenizer_, Tokenizer::load(model->folder_));
  }
  model->chat_template_ = ChatTemplate::load(model->folder_, options.chat_template);
  if (!options.chat_template.empty()) RETURN_IF_ERROR(model->chat_template_.status());
  if (model->chat_template_.ok()) {
    if (std::string note = note_of(*model->chat_template_); !note.empty()) {
      model->warnings_.push_back(std::move(note));
    }
  }
  model->find_end_ids();
  model->check_tags();
  model->check_vocabulary();
  if ((needs_weights || has_weights(model->folder_)) && !options.random_weights.has_value()) {
    RETURN_IF_ERROR(model->open_checkpoint());
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

std::string Model::without_tokenizer() const {
  return fmt::format("{} {}", name(), missing_tokenizer(folder_));
}

absl::Status Model::read_defaults() {
  ASSIGN_OR_RETURN(generation_config_, read_generation_config(folder_));
  const RequestDefaults& defaults = options_.defaults;
  if (!defaults.sampling.empty()) {
    const absl::Status added = add_sampling_defaults(defaults.sampling, &generation_config_);
    if (!added.ok()) return invalid_argument("--sampling-defaults: {}", message_of(added));
  }
  if (defaults.max_tokens.has_value()) generation_config_.max_new_tokens = defaults.max_tokens;
  if (defaults.template_variables.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(template_defaults_,
                   parse_ordered_json(defaults.template_variables, "--chat-template-kwargs"));
  if (template_defaults_.is_object()) return absl::OkStatus();
  return invalid_argument("--chat-template-kwargs: must be a JSON object, found {}",
                          template_defaults_.type_name());
}

void Model::find_end_ids() {
  const std::vector<int64_t>& configured = generation_config_.eos_token_ids;
  end_ids_ = configured.empty() ? config().eos_token_ids : configured;
  chat_end_ids_ = end_ids_;
  const auto eos = tokenizer_ != nullptr ? tokenizer_->eos_id() : std::nullopt;
  if (!eos.has_value() || *eos >= config().vocab_size) return;
  if (std::ranges::find(end_ids_, *eos) != end_ids_.end()) return;
  const auto is_written = [&](int64_t id) {
    const std::string text = tokenizer_->token_text(static_cast<int32_t>(id));
    return chat_template_.ok() && !text.empty() && chat_template_->mentions(text);
  };
  const bool writes_it =
      is_written(*eos) || (chat_template_.ok() && chat_template_->mentions("eos_token"));
  if (writes_it || std::ranges::none_of(end_ids_, is_written)) chat_end_ids_.push_back(*eos);
  end_ids_.push_back(*eos);
}

void Model::check_tags() {
  if (tokenizer_ == nullptr || !chat_template_.ok()) return;
  const std::vector<std::string> tags = tags_without_token(*chat_template_, *tokenizer_);
  if (tags.empty()) return;
  warnings_.push_back(
      fmt::format("the chat template writes {}, for which the tokenizer has no token: are all "
                  "files of the tokenizer present, and is it this model's template?",
                  first_names(tags)));
}

void Model::check_vocabulary() {
  if (tokenizer_ == nullptr) return;
  const int64_t rows = config().vocab_size, ids = tokenizer_->vocab_size();
  // An embedding may have more rows than the tokenizer has ids. Some models round the number up to
  // a multiple of 64, 128 or 256; some add up to 2 % for later tokens. The check allows 256 rows or
  // 10 % more.
  if (rows - ids > std::max<int64_t>(rows / 10, 256)) {
    warnings_.push_back(
        fmt::format("the tokenizer has ids up to {}, and the model's embedding {} rows: later ids "
                    "have no text and are omitted from answers; is it this model's tokenizer?",
                    ids - 1, rows));
  }
  if (ids <= rows) return;
  warnings_.push_back(fmt::format(
      "the tokenizer has ids up to {}, and the model's embedding {} rows: a prompt with {} or a "
      "later one is refused",
      ids - 1, rows, printable(tokenizer_->token_text(static_cast<int32_t>(rows)))));
}

int64_t Model::max_pages() const { return limits_.sequences() * pages_of(limits_.context()); }

int64_t Model::pages_of(int64_t positions) const {
  return (positions + limits_.page_tokens() - 1) / limits_.page_tokens();
}

absl::Status Model::open_checkpoint() {
  ASSIGN_OR_RETURN(checkpoint_, Checkpoint::open(folder_));
  for (std::string& warning : use_names_of(*checkpoint_, config(), description_.graph)) {
    warnings_.push_back(std::move(warning));
  }
  RETURN_IF_ERROR(check_tensors(*checkpoint_, graph()));
  const std::string unread = unread_tensors(*checkpoint_, graph());
  if (!unread.empty()) warnings_.push_back(unread);
  return absl::OkStatus();
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
        wanted, name(), stored);
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
  if (options_.embedding == "file" && role == program::EMBEDDING && checkpoint_.has_value()) {
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
