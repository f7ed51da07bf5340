// SPDX-License-Identifier: Apache-2.0
#include "coordinator/api/generate_request.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <random>

#include "base/field_error.h"
#include "base/json.h"
#include "base/status.h"
#include "coordinator/admission/admission.h"
#include "coordinator/api/chat/chat_prompt.h"
#include "coordinator/api/limits.h"
#include "proto/handshake.h"

namespace lockstep {
namespace {

constexpr int32_t kDefaultMaxTokens = 128;

absl::Status check_id(const char* field, int32_t id, int64_t vocabulary) {
  if (0 <= id && id < vocabulary) return absl::OkStatus();
  return field_error(
      field, "must be token ids of 0 to {}, found {}, which is out of vocabulary ({} tokens)",
      vocabulary - 1, id, vocabulary);
}

absl::Status check_ids(const v1::GenerateRequest& message, int64_t vocabulary) {
  for (const int32_t id : message.prompt_ids().ids()) {
    if (id == -1 && message.has_prompt_embeds()) continue;
    RETURN_IF_ERROR(check_id("prompt_ids", id, vocabulary));
  }
  for (const int32_t id : message.stop_ids()) RETURN_IF_ERROR(check_id("stop_ids", id, vocabulary));
  for (const auto& [id, bias] : message.logit_bias()) {
    RETURN_IF_ERROR(check_id("logit_bias", id, vocabulary));
  }
  for (const int32_t id : message.logprob_ids()) {
    RETURN_IF_ERROR(check_id("logprob_ids", id, vocabulary));
  }
  for (const int32_t id : message.allowed_ids()) {
    RETURN_IF_ERROR(check_id("allowed_ids", id, vocabulary));
  }
  return absl::OkStatus();
}

absl::Status check_logprob_ids(const v1::GenerateRequest& message) {
  if (message.logprob_ids().empty() || message.has_logprobs()) return absl::OkStatus();
  return field_error("logprob_ids", "must be sent with logprobs, found none");
}

absl::Status check_truncation(const v1::GenerateRequest& message) {
  const std::string& side = message.truncation_side();
  if (message.has_truncation_side() && side != "left" && side != "right") {
    return field_error("truncation_side", "must be left or right, found {}", printable(side));
  }
  if (!message.has_truncate_prompt_tokens()) return absl::OkStatus();
  if (message.truncate_prompt_tokens() == 0) {
    return field_error("truncate_prompt_tokens", "must be -1, or 1 or more, found 0");
  }
  if (!message.has_prompt_embeds()) return absl::OkStatus();
  return field_error("truncate_prompt_tokens", "must not be sent with prompt_embeds");
}

absl::Status check_prompt(const v1::GenerateRequest& message, const Model& model) {
  const int given = message.has_prompt() + message.has_prompt_ids() + message.has_chat();
  if (given != 1) {
    return invalid_argument("the prompt: must be one of prompt, prompt_ids and chat, found {}",
                            given == 0 ? "none" : "several");
  }
  if (message.has_prompt_ids() || model.tokenizer() != nullptr) return absl::OkStatus();
  return invalid_argument("{}: give the prompt as token ids", model.without_tokenizer());
}

absl::Status fill_prompt_embeds(const v1::GenerateRequest& message, const Model& model,
                                EngineRequest* request) {
  if (!message.has_prompt_embeds()) return absl::OkStatus();
  if (!model.options().takes_prompt_embeds) {
    return field_error("prompt_embeds",
                       "this server does not take embeddings; it has to be started with "
                       "--prompt-embeds");
  }
  if (message.has_prompt_logprobs()) {
    return field_error("prompt_embeds",
                       "must not be combined with prompt log-probabilities, found both");
  }
  const auto rows = std::ranges::count(request->prompt_ids, -1);
  const int64_t hidden = model.config().embedding_width;
  const std::string& bytes = message.prompt_embeds();
  if (static_cast<int64_t>(bytes.size()) != rows * hidden * int64_t{sizeof(float)}) {
    return field_error("prompt_embeds",
                       "must be {} rows, one for each -1 of prompt_ids, of {} float32: {} bytes, "
                       "found {}",
                       rows, hidden, rows * hidden * int64_t{sizeof(float)}, bytes.size());
  }
  request->prompt_embeds.resize(bytes.size() / sizeof(float));
  std::memcpy(request->prompt_embeds.data(), bytes.data(), bytes.size());
  for (size_t i = 0; i < request->prompt_embeds.size(); ++i) {
    if (std::isfinite(request->prompt_embeds[i])) continue;
    return field_error("prompt_embeds", "must be finite numbers, found {} in row {}, column {}",
                       request->prompt_embeds[i], i / hidden, i % hidden);
  }
  return absl::OkStatus();
}

// Checks the length of the text before it is tokenized.
absl::Status check_text(std::string_view text, const Model& model) {
  const int64_t bytes = static_cast<int64_t>(text.size());
  const int64_t context = model.max_context();
  if (bytes / kPromptBytesPerToken < context) return absl::OkStatus();
  return too_long(context, bytes / kPromptBytesPerToken,
                  fmt::format("or more: its text must be fewer than {} bytes, {} for each token, "
                              "found {}; shorten it",
                              kPromptBytesPerToken * context, kPromptBytesPerToken, bytes));
}

// A tokenizer may have tokens for which the model's embedding has no row.
absl::Status check_tokens(const EngineRequest& request, const char* field, const Model& model) {
  const int64_t rows = model.config().vocab_size;
  for (const int32_t id : request.prompt_ids) {
    if (id < rows) continue;
    return field_error(
        field,
        "the token {} has the id {}, and the model's embedding has {} rows: leave the token out",
        printable(model.tokenizer()->token_text(id)), id, rows);
  }
  return absl::OkStatus();
}

absl::Status fill_prompt(const v1::GenerateRequest& message, const Model& model,
                         EngineRequest* request) {
  if (message.has_prompt()) {
    RETURN_IF_ERROR(check_text(message.prompt(), model));
    const EncodeOptions options = {.add_special =
                                       !message.has_add_special() || message.add_special()};
    ASSIGN_OR_RETURN(request->prompt_ids, model.tokenizer()->encode(message.prompt(), options));
    RETURN_IF_ERROR(check_tokens(*request, "prompt", model));
  } else if (message.has_chat()) {
    ASSIGN_OR_RETURN(const MarkedText text, render_chat(message.chat(), model));
    RETURN_IF_ERROR(check_text(text.bytes, model));
    // The template writes begin tokens itself: they are added only if the caller asks for them.
    ASSIGN_OR_RETURN(request->prompt_ids, model.tokenizer()->encode(text, message.add_special()));
    RETURN_IF_ERROR(check_tokens(*request, "chat", model));
  } else {
    request->prompt_ids.assign(message.prompt_ids().ids().begin(),
                               message.prompt_ids().ids().end());
  }
  if (!request->prompt_ids.empty()) return absl::OkStatus();
  return invalid_argument("the prompt: must have at least one token, found none");
}

// Removes prompt tokens beyond truncate_prompt_tokens. -1 leaves room for max_tokens after the
// prompt; if max_tokens fill the whole context, it leaves room for one token.
void truncate_prompt(const v1::GenerateRequest& message, const Model& model,
                     EngineRequest* request) {
  if (!message.has_truncate_prompt_tokens()) return;
  int64_t wanted = message.truncate_prompt_tokens();
  if (wanted < 0) {
    const int64_t room = model.max_context() - request->max_tokens;
    wanted = std::max<int64_t>(room > 0 ? room : model.max_context() - 1, 1);
  }
  std::vector<int32_t>& ids = request->prompt_ids;
  const int64_t excess = static_cast<int64_t>(ids.size()) - wanted;
  if (excess <= 0) return;
  const auto first = message.truncation_side() == "right" ? ids.begin() + wanted : ids.begin();
  ids.erase(first, first + excess);
}

// Forbids the tokens that each word has at the start of a text. With a space before it, a word may
// have other tokens: these are forbidden, too, if there are as many of them and the first one is
// another. vLLM does the same.
absl::Status fill_bad_words(const v1::GenerateRequest& message, const Model& model,
                            EngineRequest* request) {
  if (message.bad_words().empty()) return absl::OkStatus();
  const Tokenizer* tokenizer = model.tokenizer();
  if (tokenizer == nullptr) return field_error("bad_words", "{}", model.without_tokenizer());
  for (const std::string& word : message.bad_words()) {
    const size_t begin = word.find_first_not_of(" \t\r\n\v\f");
    if (begin == std::string::npos) {
      return field_error("bad_words", "must be words, found only blanks");
    }
    const std::string text = word.substr(begin);
    const EncodeOptions options = {.add_special = false};
    ASSIGN_OR_RETURN(std::vector<int32_t> first, tokenizer->encode(text, options));
    ASSIGN_OR_RETURN(std::vector<int32_t> later, tokenizer->encode(" " + text, options));
    if (first.empty()) return field_error("bad_words", "{} has no tokens", printable(word));
    std::vector<std::vector<int32_t>>& words = request->sampling.bad_words;
    const bool is_another = later.size() == first.size() && later[0] != first[0];
    words.push_back(std::move(first));
    if (is_another) words.push_back(std::move(later));
  }
  return absl::OkStatus();
}

SamplingParams sampling_of(const v1::GenerateRequest& message, const GenerationConfig& defaults) {
  const SamplingParams standard;
  SamplingParams sampling;
  const auto pick = [](bool given, auto value, const auto& configured, auto otherwise) {
    return given ? value : static_cast<decltype(value)>(configured.value_or(otherwise));
  };
  sampling.temperature = pick(message.has_temperature(), message.temperature(),
                              defaults.temperature, standard.temperature);
  sampling.top_k = pick(message.has_top_k(), message.top_k(), defaults.top_k, standard.top_k);
  sampling.top_p = pick(message.has_top_p(), message.top_p(), defaults.top_p, standard.top_p);
  sampling.min_p = pick(message.has_min_p(), message.min_p(), defaults.min_p, standard.min_p);
  sampling.repetition_penalty = pick(message.has_repetition_penalty(), message.repetition_penalty(),
                                     defaults.repetition_penalty, standard.repetition_penalty);
  sampling.presence_penalty = pick(message.has_presence_penalty(), message.presence_penalty(),
                                   defaults.presence_penalty, standard.presence_penalty);
  sampling.frequency_penalty = pick(message.has_frequency_penalty(), message.frequency_penalty(),
                                    defaults.frequency_penalty, standard.frequency_penalty);
  sampling.logit_bias.insert(message.logit_bias().begin(), message.logit_bias().end());
  std::vector<int32_t>& allowed = sampling.allowed_ids;
  allowed.assign(message.allowed_ids().begin(), message.allowed_ids().end());
  std::ranges::sort(allowed);
  allowed.erase(std::unique(allowed.begin(), allowed.end()), allowed.end());
  return sampling;
}

uint64_t draw_seed() {
  std::random_device device;
  return (static_cast<uint64_t>(device()) << 21) ^ device();  // Below 2^53: exact in any JSON.
}

// The id must be hard to guess: it may be all that a client shows to resume the request.
std::string draw_request_id() { return "request-" + to_hex(draw_nonce().substr(0, 16)); }

}  // namespace

absl::StatusOr<EngineRequest> to_request(const v1::GenerateRequest& message, const Model& model) {
  RETURN_IF_ERROR(check_limits(message));
  RETURN_IF_ERROR(check_prompt(message, model));
  RETURN_IF_ERROR(check_ids(message, model.config().vocab_size));
  RETURN_IF_ERROR(check_logprob_ids(message));
  RETURN_IF_ERROR(check_truncation(message));
  EngineRequest request;
  RETURN_IF_ERROR(fill_prompt(message, model, &request));
  RETURN_IF_ERROR(fill_prompt_embeds(message, model, &request));
  request.id = message.has_request_id() ? message.request_id() : draw_request_id();
  request.max_tokens = message.has_max_tokens()
                           ? message.max_tokens()
                           : static_cast<int32_t>(model.generation_config().max_new_tokens.value_or(
                                 kDefaultMaxTokens));
  truncate_prompt(message, model, &request);
  request.min_tokens = message.min_tokens();
  request.sampling = sampling_of(message, model.generation_config());
  RETURN_IF_ERROR(fill_bad_words(message, model, &request));
  request.seed = message.has_seed() ? message.seed() : draw_seed();
  request.stop.assign(message.stop().begin(), message.stop().end());
  request.stop_ids.assign(message.stop_ids().begin(), message.stop_ids().end());
  if (!message.ignore_eos()) {
    const std::vector<int64_t>& ends = model.end_ids(message.has_chat());
    request.stop_ids.insert(request.stop_ids.end(), ends.begin(), ends.end());
  }
  request.n = message.has_n() ? message.n() : 1;
  request.logprobs = message.has_logprobs() ? message.logprobs() : -1;
  request.logprob_ids.assign(message.logprob_ids().begin(), message.logprob_ids().end());
  request.return_prompt_ids = message.return_prompt_ids();
  request.prompt_logprobs = message.has_prompt_logprobs() ? message.prompt_logprobs() : -1;
  request.priority = message.priority();
  request.cache_salt = message.cache_salt();
  return request;
}

absl::StatusOr<EngineRequest> RequestBatch::add(const v1::GenerateRequest& prompt) {
  v1::GenerateRequest message = shared_;
  message.MergeFrom(prompt);
  ASSIGN_OR_RETURN(EngineRequest request, to_request(message, model_));
  if (first_.has_value()) {
    request.sampling = first_->sampling;
    request.stop = first_->stop;
    request.stop_ids = first_->stop_ids;
    request.logprob_ids = first_->logprob_ids;
    return request;
  }
  first_ = EngineRequest{.sampling = request.sampling,
                         .stop = request.stop,
                         .stop_ids = request.stop_ids,
                         .logprob_ids = request.logprob_ids};
  shared_.clear_logit_bias();
  shared_.clear_allowed_ids();
  shared_.clear_bad_words();
  shared_.clear_stop();
  shared_.clear_stop_ids();
  shared_.clear_logprob_ids();
  return request;
}

absl::StatusOr<v1::GenerateRequest> generate_request_from_json(const std::string& line,
                                                               bool* logits) {
  ASSIGN_OR_RETURN(nlohmann::json object, parse_json(line, "request"));
  if (!object.is_object())
    return invalid_argument("request: must be a JSON object, found {}", object.type_name());
  *logits = false;
  if (const auto found = object.find("logits"); found != object.end()) {
    if (!found->is_boolean())
      return invalid_argument("logits: must be true or false, found {}", found->type_name());
    *logits = found->get<bool>();
    object.erase(found);
  }
  if (const auto ids = object.find("prompt_ids"); ids != object.end()) {
    *ids = nlohmann::json{{"ids", *ids}};
  }
  v1::GenerateRequest message;
  const auto status = google::protobuf::util::JsonStringToMessage(object.dump(), &message);
  if (!status.ok()) {
    return invalid_argument("{}", std::string(status.message().data(), status.message().size()));
  }
  return message;
}

}  // namespace lockstep
