// SPDX-License-Identifier: Apache-2.0
// Protobuf's own reflection walks the fields, so that a range needs one row in a table and nothing
// else.
#include "coordinator/api/generate_request.h"

#include <google/protobuf/util/json_util.h>

#include <atomic>
#include <cmath>
#include <nlohmann/json.hpp>
#include <random>

#include "base/json.h"
#include "base/status.h"

namespace lockstep {
namespace {

constexpr FieldRange kRanges[] = {
    {"max_tokens", 0, 1 << 30},
    {"min_tokens", 0, 1 << 30},
    {"temperature", 0, 100},
    {"top_k", 0, 1 << 30},
    {"top_p", 0, 1, /*least_included=*/false},
    {"min_p", 0, 1},
    {"repetition_penalty", 0, 10, /*least_included=*/false},
    {"presence_penalty", -2, 2},
    {"frequency_penalty", -2, 2},
    {"n", 1, 64},
    {"logprobs", 0, 20},
};
constexpr int kMaxStops = 16;
constexpr size_t kMaxStopBytes = 256;
constexpr float kMaxBias = 100;
constexpr int32_t kDefaultMaxTokens = 128;

using google::protobuf::FieldDescriptor;

absl::Status check_ranges(const v1::GenerateRequest& message) {
  const auto* descriptor = v1::GenerateRequest::descriptor();
  const auto* reflection = message.GetReflection();
  for (const FieldRange& range : kRanges) {
    const FieldDescriptor* field = descriptor->FindFieldByName(range.field);
    if (!reflection->HasField(message, field)) continue;
    const double value = field->cpp_type() == FieldDescriptor::CPPTYPE_FLOAT
                             ? reflection->GetFloat(message, field)
                             : reflection->GetInt32(message, field);
    const bool low = range.least_included ? value < range.least : value <= range.least;
    if (low || value > range.most || std::isnan(value)) {
      return invalid_argument("{}: wanted a number {} {} and at most {}, found {}", range.field,
                              range.least_included ? "of at least" : "above", range.least,
                              range.most, value);
    }
  }
  return absl::OkStatus();
}

absl::Status check_lists(const v1::GenerateRequest& message, int64_t vocabulary) {
  if (message.stop_size() > kMaxStops) {
    return invalid_argument("stop: wanted at most {} strings, found {}", kMaxStops,
                            message.stop_size());
  }
  for (const std::string& stop : message.stop()) {
    if (stop.empty() || stop.size() > kMaxStopBytes) {
      return invalid_argument("stop: wanted strings of 1 to {} bytes, found one of {}",
                              kMaxStopBytes, stop.size());
    }
  }
  for (const int32_t id : message.stop_ids()) {
    if (id < 0 || id >= vocabulary) {
      return invalid_argument("stop_ids: {} is not a token: ids are 0 to {}", id, vocabulary - 1);
    }
  }
  for (const auto& [id, bias] : message.logit_bias()) {
    if (id < 0 || id >= vocabulary) {
      return invalid_argument("logit_bias: {} is not a token: ids are 0 to {}", id, vocabulary - 1);
    }
    if (!(std::fabs(bias) <= kMaxBias)) {
      return invalid_argument("logit_bias: wanted -{} to {}, found {} for token {}", kMaxBias,
                              kMaxBias, bias, id);
    }
  }
  return absl::OkStatus();
}

absl::Status fill_prompt(const v1::GenerateRequest& message, const Model& model, Request* request) {
  if (message.has_prompt() == message.has_prompt_ids()) {
    return invalid_argument("wanted one of prompt and prompt_ids, found {}",
                            message.has_prompt() ? "both" : "neither");
  }
  if (message.has_prompt()) {
    if (model.tokenizer() == nullptr) {
      return invalid_argument("{} has no tokenizer.json: give prompt_ids instead of prompt",
                              model.name());
    }
    ASSIGN_OR_RETURN(request->prompt_ids, model.tokenizer()->encode(message.prompt()));
    request->prompt_is_text = true;
  } else {
    request->prompt_ids.assign(message.prompt_ids().ids().begin(),
                               message.prompt_ids().ids().end());
  }
  if (request->prompt_ids.empty()) {
    return invalid_argument("the prompt is empty: wanted at least one token");
  }
  for (const int32_t id : request->prompt_ids) {
    if (id < 0 || id >= model.config().vocab_size) {
      return invalid_argument("prompt_ids: {} is not a token: ids are 0 to {}", id,
                              model.config().vocab_size - 1);
    }
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
  sampling.presence_penalty = message.presence_penalty();
  sampling.frequency_penalty = message.frequency_penalty();
  sampling.logit_bias.insert(message.logit_bias().begin(), message.logit_bias().end());
  return sampling;
}

uint64_t draw_seed() {
  std::random_device device;
  return (static_cast<uint64_t>(device()) << 21) ^ device();  // Below 2^53: exact in any JSON.
}

std::string make_request_id() {
  static std::atomic<uint64_t> count{0};
  return fmt::format("request-{}", ++count);
}

}  // namespace

std::span<const FieldRange> generate_field_ranges() { return kRanges; }

absl::StatusOr<Request> to_request(const v1::GenerateRequest& message, const Model& model) {
  RETURN_IF_ERROR(check_ranges(message));
  RETURN_IF_ERROR(check_lists(message, model.config().vocab_size));
  Request request;
  RETURN_IF_ERROR(fill_prompt(message, model, &request));
  request.id = message.has_request_id() ? message.request_id() : make_request_id();
  request.max_tokens = message.has_max_tokens()
                           ? message.max_tokens()
                           : static_cast<int32_t>(model.generation_config().max_new_tokens.value_or(
                                 kDefaultMaxTokens));
  request.min_tokens = message.min_tokens();
  request.sampling = sampling_of(message, model.generation_config());
  request.seed = message.has_seed() ? message.seed() : draw_seed();
  request.stop.assign(message.stop().begin(), message.stop().end());
  request.stop_ids.assign(message.stop_ids().begin(), message.stop_ids().end());
  if (!message.ignore_eos()) {
    const std::vector<int64_t>& configured = model.generation_config().eos_token_ids;
    const std::vector<int64_t>& ends =
        configured.empty() ? model.config().eos_token_ids : configured;
    request.stop_ids.insert(request.stop_ids.end(), ends.begin(), ends.end());
  }
  request.n = message.has_n() ? message.n() : 1;
  request.logprobs = message.has_logprobs() ? message.logprobs() : -1;
  return request;
}

absl::StatusOr<v1::GenerateRequest> generate_request_from_json(const std::string& line,
                                                               bool* logits) {
  ASSIGN_OR_RETURN(nlohmann::json object, parse_json(line, "request"));
  if (!object.is_object())
    return invalid_argument("wanted a JSON object, found {}", object.type_name());
  *logits = false;
  if (const auto found = object.find("logits"); found != object.end()) {
    if (!found->is_boolean()) return invalid_argument("logits: wanted true or false");
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
