// SPDX-License-Identifier: Apache-2.0
#include "coordinator/openai/answers/resumption.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "base/status.h"
#include "base/system/out_of_memory.h"
#include "coordinator/http/ascii.h"
#include "coordinator/http/refusal.h"
#include "coordinator/openai/answers/event_source.h"
#include "coordinator/openai/error.h"

namespace lockstep::openai {
namespace {

using ExchangePtr = std::shared_ptr<http::Exchange>;

// The cost of an event that is read again and not sent, in bytes of text to tokenize.
constexpr int64_t kBytesPerEvent = 64;
constexpr int64_t kMaxPieceBytes = 8 << 20;  // If it has log-probabilities.

// The approximate bytes that the first piece of a resumed stream may have. The last events of a
// response repeat its log-probabilities and, as the first two events do, the request's fields.
int64_t piece_bytes(const ResumableFacts& facts) {
  constexpr int64_t kRepeats = 3;
  const int64_t repeated = facts.http == nullptr ? 0 : std::ssize(facts.http->repeated);
  return facts.logprobs ? kMaxPieceBytes : kRepeats * repeated;
}

absl::StatusOr<size_t> as_offset(const char* name, std::string_view text) {
  if (text.empty() || text.size() > 18 || !std::ranges::all_of(text, http::is_digit)) {
    return refusal(name, fmt::format("must be an offset of the stream, found {}", printable(text)));
  }
  size_t value = 0;
  for (const char c : text) value = value * 10 + static_cast<size_t>(c - '0');
  return value;
}

void refuse(http::Exchange& exchange, const absl::Status& status) {
  const auto refusal = [&](int code, const char* name) {
    exchange.respond(
        http::render_refusal({.status = code, .code = name, .message = message_of(status)}));
  };
  if (status == event_log_is_gone()) return refusal(410, "stream_gone");
  if (status.code() == absl::StatusCode::kNotFound) return refusal(404, "stream_not_found");
  const bool is_behind = status.code() == absl::StatusCode::kOutOfRange;
  exchange.respond(error_response(is_behind ? with_param(status, "from") : status));
}

// The facts with which the stream began. A stream that began over gRPC has only text.
std::shared_ptr<const AnswerFacts> facts_of(const ResumableStream& resumable, const Model& model) {
  const ResumableFacts& facts = resumable.facts();
  if (facts.http != nullptr) return facts.http;
  return std::make_shared<const AnswerFacts>(
      AnswerFacts{.endpoint = facts.is_chat ? kChat : kCompletions,
                  .id = resumable.name().id,
                  .created = facts.created_s,
                  .model = model.name(),
                  .resumable = true,
                  .logprobs = facts.logprobs,
                  .tokenizer = model.tokenizer()});
}

}  // namespace

absl::StatusOr<size_t> resume_offset(const http::Request& request) {
  const std::string_view last = request.header("Last-Event-ID");
  if (!last.empty()) {
    ASSIGN_OR_RETURN(const size_t offset, as_offset("Last-Event-ID", last));
    return offset + 1;
  }
  constexpr std::string_view kFrom = "from=";
  for (std::string_view rest = request.query; !rest.empty();) {
    const std::string_view field = rest.substr(0, rest.find('&'));
    rest.remove_prefix(std::min(field.size() + 1, rest.size()));
    if (field.starts_with(kFrom)) return as_offset("from", field.substr(kFrom.size()));
  }
  return 0;
}

void resume_stream(ApiContext* context, const ExchangePtr& exchange, const std::string& id) {
  const absl::StatusOr<size_t> from = resume_offset(exchange->request());
  if (!from.ok()) return refuse(*exchange, from.status());
  const auto resumable = context->served.find_resumable(exchange->client(), id);
  if (!resumable.ok()) return refuse(*exchange, resumable.status());
  const auto begin = [context, exchange, resumable = *resumable, from = *from] {
    const absl::Status begun = within_memory([&]() -> absl::Status {
      std::vector<std::unique_ptr<StreamReader>> readers(1);
      ASSIGN_OR_RETURN(readers[0], resumable->log().open(from));
      resume_with_events(exchange, facts_of(*resumable, *context->served.model), std::move(readers),
                         from);
      return absl::OkStatus();
    });
    if (!begun.ok()) refuse(*exchange, begun);
  };
  const int64_t events = static_cast<int64_t>(std::min(*from, (*resumable)->log().size()));
  const int64_t cost = kBytesPerEvent * events + piece_bytes((*resumable)->facts());
  const absl::Status accepted = context->pool->submit(exchange->client(), cost, begin);
  if (!accepted.ok()) refuse(*exchange, accepted);
}

void cancel_stream(ApiContext* context, const ExchangePtr& exchange, const std::string& id) {
  const auto resumable = context->served.find_resumable(exchange->client(), id);
  if (!resumable.ok()) return refuse(*exchange, resumable.status());
  (*resumable)->cancel();
  exchange->respond({.status = 204});
}

}  // namespace lockstep::openai
