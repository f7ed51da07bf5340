// SPDX-License-Identifier: Apache-2.0
#include "coordinator/engine/request_log.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "base/log.h"
#include "base/log_limit.h"

namespace lockstep {
namespace {

// In milliseconds, rounded to microseconds.
double in_ms(int64_t ns) { return std::round(static_cast<double>(ns) / 1e3) / 1e3; }

}  // namespace

void log_refused(std::string_view client, std::string_view endpoint, std::string_view traceparent,
                 const absl::Status& status, std::string_view id) {
  if (!spdlog::should_log(spdlog::level::info)) return;
  int64_t refusals = 1;
  if (absl::IsUnauthenticated(status)) {
    static LogLimit limit{std::chrono::seconds(1)};
    refusals = limit.count();
    if (refusals == 0) return;
  }
  OrderedJson fields = OrderedJson::object();
  if (!id.empty()) fields["id"] = id;
  fields.update({{"client", client},
                 {"endpoint", endpoint},
                 {"status", absl::StatusCodeToString(status.code())},
                 {"refused", true}});
  if (refusals > 1) fields["refusals"] = refusals;
  if (!traceparent.empty()) fields["traceparent"] = traceparent;
  log_fields("request", fields);
}

void RequestLog::on_submitted(const Stream* stream, const EngineRequest& request,
                              int64_t submitted_ns) {
  if (!spdlog::should_log(spdlog::level::info)) return;
  entries_[stream] = {.id = request.id,
                      .client = request.client,
                      .endpoint = request.endpoint,
                      .traceparent = request.traceparent,
                      .choices = request.n,
                      .prompt_tokens = std::ssize(request.prompt_ids),
                      .submitted_ns = submitted_ns};
}

void RequestLog::on_started(const Stream* stream, int64_t now_ns) {
  const auto found = entries_.find(stream);
  if (found != entries_.end() && !found->second.started_ns) found->second.started_ns = now_ns;
}

void RequestLog::on_event(const Stream* stream, const StreamEvent& event, int64_t now_ns) {
  const auto found = entries_.find(stream);
  if (found == entries_.end()) return;
  Entry& entry = found->second;
  entry.completion_tokens += std::ssize(event.token_ids);
  if (!event.token_ids.empty() && !entry.first_token_ns) entry.first_token_ns = now_ns;
  if (event.finish_reason == FinishReason::kNone) return;
  entry.finish_reason = event.finish_reason;
  entry.cached_tokens = std::max<int64_t>(entry.cached_tokens, event.cached_tokens);
}

void RequestLog::on_closed(const Stream* stream, const absl::Status& status, int64_t now_ns) {
  const auto found = entries_.find(stream);
  if (found == entries_.end()) return;
  const Entry entry = std::move(found->second);
  entries_.erase(found);
  OrderedJson fields = {{"id", entry.id},
                        {"client", entry.client},
                        {"endpoint", entry.endpoint},
                        {"status", absl::StatusCodeToString(status.code())},
                        {"finish_reason", finish_reason_name(entry.finish_reason)},
                        {"choices", entry.choices},
                        {"prompt_tokens", entry.prompt_tokens},
                        {"completion_tokens", entry.completion_tokens},
                        {"cached_tokens", entry.cached_tokens}};
  if (entry.started_ns) fields["queue_ms"] = in_ms(*entry.started_ns - entry.submitted_ns);
  if (entry.first_token_ns) fields["ttft_ms"] = in_ms(*entry.first_token_ns - entry.submitted_ns);
  fields["total_ms"] = in_ms(now_ns - entry.submitted_ns);
  if (!entry.traceparent.empty()) fields["traceparent"] = entry.traceparent;
  log_fields("request", fields);
}

}  // namespace lockstep
