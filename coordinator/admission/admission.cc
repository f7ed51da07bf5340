// SPDX-License-Identifier: Apache-2.0
// Checks a request's token ids, sampling parameters and length.
#include "coordinator/admission/admission.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/cord.h"
#include "base/field_error.h"
#include "base/status.h"
#include "proto/sampling_ranges.h"

namespace lockstep {
namespace {

constexpr char kTooLong[] = "lockstep/too_long";
constexpr char kRetryAfter[] = "lockstep/retry_after";  // In seconds.

absl::Status check_ids(const EngineRequest& request, int64_t vocab) {
  for (const auto& [name, ids] : {std::pair("allowed_ids", &request.sampling.allowed_ids),
                                  std::pair("logprob_ids", &request.logprob_ids)}) {
    for (const int32_t id : *ids) {
      if (0 <= id && id < vocab) continue;
      return field_error(name, "must be token ids below {}, found {}", vocab, id);
    }
  }
  const std::vector<int32_t>& ids = request.prompt_ids;
  const int32_t min = request.prompt_embeds.empty() ? 0 : -1;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (min <= ids[i] && ids[i] < vocab) continue;
    return field_error(fmt::format("prompt_ids[{}]", i), "must be a token id below {}, found {}",
                       vocab, ids[i]);
  }
  return absl::OkStatus();
}

absl::Status check_number(std::string_view field, float value, bool in_range) {
  if (in_range && std::isfinite(value)) return absl::OkStatus();
  return field_error(field, "out of range: {}", value);
}

// Checks lower limits only. The callers check upper limits, which differ between requests and a
// model's defaults.
absl::Status check_sampling(const SamplingParams& params, int64_t vocab) {
  const std::pair<std::string_view, float> numbers[] = {
      {"temperature", params.temperature},
      {"top_p", params.top_p},
      {"min_p", params.min_p},
      {"repetition_penalty", params.repetition_penalty},
      {"presence_penalty", params.presence_penalty},
      {"frequency_penalty", params.frequency_penalty}};
  for (const auto& [field, value] : numbers) {
    const SamplingRange& range = sampling_range(field);
    const float min = static_cast<float>(range.min);
    RETURN_IF_ERROR(check_number(field, value, range.min_included ? value >= min : value > min));
  }
  for (const auto& [id, bias] : params.logit_bias) {
    if (id < 0 || id >= vocab) {
      return field_error("logit_bias", "must have token ids below {}, found {}", vocab, id);
    }
    RETURN_IF_ERROR(check_number("logit_bias", bias, true));
  }
  return absl::OkStatus();
}

}  // namespace

// Clients recognize this message: litellm by the words before "but", langchain-openai by "the
// prompt is too long".
absl::Status too_long(int64_t context, int64_t found, std::string_view why) {
  absl::Status refusal = invalid_argument(
      "This model's maximum context length is {} tokens, but the request has {} (the prompt is too "
      "long: {})",
      context, found, why);
  refusal.SetPayload(kTooLong, absl::Cord());
  return refusal;
}

bool is_too_long(const absl::Status& status) { return status.GetPayload(kTooLong).has_value(); }

absl::Status retry_after(absl::Status refusal, int64_t seconds) {
  refusal.SetPayload(kRetryAfter, absl::Cord(std::to_string(std::max<int64_t>(seconds, 1))));
  return refusal;
}

int64_t retry_after_of(const absl::Status& refusal) {
  const absl::optional<absl::Cord> seconds = refusal.GetPayload(kRetryAfter);
  return seconds.has_value() ? std::stoll(std::string(*seconds)) : 1;
}

absl::Status check_length(const EngineRequest& request, const GroupInfo& group) {
  const int64_t prompt = static_cast<int64_t>(request.prompt_ids.size());
  const int64_t first = request.max_tokens > 0 ? 1 : 0;
  if (prompt + first > group.max_context) {
    return too_long(
        group.max_context, prompt,
        fmt::format("it must be at most {}, so that one more token fits; shorten the prompt or "
                    "raise --max-context",
                    group.max_context - first));
  }
  const int64_t room = group.pages * group.page_tokens;
  if (prompt + first > room) {
    return too_long(
        room, prompt,
        fmt::format("it must be at most {}, so that one more token fits the {} KV pages of {} "
                    "tokens; shorten the prompt or raise --kv-memory",
                    room - first, group.pages, group.page_tokens));
  }
  return absl::OkStatus();
}

// A prompt's prefix is computed in one step, together with a row of every other sequence.
absl::Status check_prefix(const EngineRequest& request, const GroupInfo& group) {
  ASSIGN_OR_RETURN(const Prefix prefix, group.prefix.find(request.prompt_ids));
  if (prefix.rows > group.max_prefix_rows()) {
    return too_long(
        group.max_prefix_rows(), prefix.rows,
        fmt::format("there must be at most {} tokens before the token id {}, so that they fit "
                    "one step; shorten the prompt or raise --prefill-chunk",
                    group.max_prefix_rows(), group.prefix.end));
  }
  if (!group.prefix.any() || request.prompt_logprobs < 0) return absl::OkStatus();
  return field_error("prompt_logprobs",
                     "in this model the tokens of a prompt see those that follow, so they have "
                     "no probabilities");
}

absl::Status check_request(const EngineRequest& request, const GroupInfo& group) {
  if (request.prompt_ids.empty()) {
    return field_error("prompt", "must have at least one token, found none");
  }
  if (request.n < 1) return field_error("n", "must be at least 1, found {}", request.n);
  RETURN_IF_ERROR(check_ids(request, group.vocab));
  RETURN_IF_ERROR(check_sampling(request.sampling, group.vocab));
  RETURN_IF_ERROR(check_length(request, group));
  return check_prefix(request, group);
}

absl::Status no_workers_for(int64_t ms) {
  return unavailable(
      "no group of workers could be formed for {} s; try again later, or wait for one by giving "
      "the request a deadline",
      ms / 1'000);
}

}  // namespace lockstep
