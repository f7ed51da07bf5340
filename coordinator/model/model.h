// SPDX-License-Identifier: Apache-2.0
// The served model: found, described, ready to be compiled for any number of ranks. Reads only the
// checkpoint's headers, no weights.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/json.h"
#include "checkpoint/checkpoint.h"
#include "coordinator/model/model_options.h"
#include "coordinator/text/template/chat_template.h"
#include "coordinator/text/tokenizer/tokenizer.h"
#include "models/config/generation_config.h"
#include "models/models.h"
#include "sharding/compile.h"
#include "sharding/scheme.h"

namespace lockstep {

// Thread-safe after open().
class Model {
 public:
  static absl::StatusOr<std::unique_ptr<Model>> open(const ModelOptions& options);

  const std::string& name() const { return names_[0]; }
  const std::vector<std::string>& names() const { return names_; }
  const std::filesystem::path& folder() const { return folder_; }
  const Config& config() const { return description_.config; }
  const Graph& graph() const { return description_.graph; }
  // The model's defaults of sampling, overridden by those of the options.
  const GenerationConfig& generation_config() const { return generation_config_; }
  // Default variables of the chat template: an object.
  const OrderedJson& template_defaults() const { return template_defaults_; }
  // Null if the folder has no tokenizer: then prompts are ids.
  const Tokenizer* tokenizer() const { return tokenizer_.get(); }
  // "NAME has no tokenizer.json": the beginning of a message.
  std::string without_tokenizer() const;
  // Tokens that end an answer: generation_config.json's, else config.json's, and the tokenizer's
  // eos_token. In a chat, eos_token does not count if the template writes another end token but
  // never eos_token.
  const std::vector<int64_t>& end_ids(bool is_chat) const {
    return is_chat ? chat_end_ids_ : end_ids_;
  }
  // An error: no template was found, or it is invalid. The model outlives the result.
  absl::StatusOr<const ChatTemplate*> chat_template() const;
  const ModelOptions& options() const { return options_; }
  // Null if weights are not quantized.
  const Scheme* scheme() const { return scheme_; }
  // Null if weights are random, or optional and missing.
  const Checkpoint* checkpoint() const { return checkpoint_.has_value() ? &*checkpoint_ : nullptr; }
  // Notes on files that do not fit together, for the log: one line each.
  const std::vector<std::string>& warnings() const { return warnings_; }
  // The type in which linears would compute if they were not quantized; also the type of KV pages,
  // unless `kv_dtype` names another.
  DType linear_dtype() const;
  int64_t max_context() const { return limits_.context(); }
  // KV pages that max_sequences sequences of max_context positions need.
  int64_t max_pages() const;
  // KV pages that a sequence of `positions` positions needs.
  int64_t pages_of(int64_t positions) const;

  // The options for compile(); the caller may set trace. The model outlives them.
  CompileOptions compile_options(std::vector<WorkerFacts> workers) const;
  absl::StatusOr<std::vector<program::Program>> compile(std::vector<WorkerFacts> workers) const;

 private:
  Model() = default;
  absl::Status choose_scheme();
  absl::Status read_defaults();
  void find_end_ids();
  void check_tags();
  void check_vocabulary();
  absl::Status open_checkpoint();
  DType plain_dtype(const std::string& source) const;
  DType weight_dtype(const std::string& source, program::Role role) const;

  std::vector<std::string> names_;  // At least one.
  std::filesystem::path folder_;
  ModelOptions options_;
  ModelDescription description_;
  const Scheme* scheme_ = nullptr;
  GenerationConfig generation_config_;
  OrderedJson template_defaults_ = OrderedJson::object();
  std::unique_ptr<Tokenizer> tokenizer_;
  absl::StatusOr<ChatTemplate> chat_template_ = absl::InternalError("not loaded");
  std::vector<int64_t> end_ids_;
  std::vector<int64_t> chat_end_ids_;
  std::optional<Checkpoint> checkpoint_;
  std::vector<std::string> warnings_;
  program::Limits limits_;
};

}  // namespace lockstep
