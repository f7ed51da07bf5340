// SPDX-License-Identifier: Apache-2.0
// The engine's thread does not signal that it has traced a step. So while clients wait, the thread
// of TraceRequests counts the traced steps every few milliseconds.
#include "coordinator/trace/trace_requests.h"

#include <charconv>
#include <utility>

#include "base/status.h"
#include "coordinator/http/refusal.h"
#include "coordinator/trace/trace_json.h"

namespace lockstep {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::milliseconds kLook{5};
constexpr size_t kMaxWaiting = 16;
constexpr int kMaxTimeout = 60;

absl::StatusOr<int> number_of(std::string_view name, std::string_view text, int min, int max) {
  int number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error == std::errc() && stop == end && min <= number && number <= max) return number;
  return invalid_argument("{}: must be {} to {}, found {}", name, min, max, printable(text));
}

void refuse(http::Exchange& exchange, int status, const char* code, const std::string& message) {
  exchange.respond(
      http::render_refusal({.status = status, .code = code, .message = message, .headers = {}}));
}

}  // namespace

absl::StatusOr<TraceQuery> parse_trace_query(std::string_view query) {
  TraceQuery parsed;
  while (!query.empty()) {
    const std::string_view one = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(one.size() + 1, query.size()));
    const size_t equals = std::min(one.find('='), one.size());
    const std::string_view name = one.substr(0, equals);
    const std::string_view value = one.substr(std::min(equals + 1, one.size()));
    if (name == "steps") {
      ASSIGN_OR_RETURN(parsed.steps, number_of(name, value, 1, TraceRecorder::kMaxSteps));
    } else if (name == "timeout") {
      ASSIGN_OR_RETURN(parsed.timeout_s, number_of(name, value, 0, kMaxTimeout));
      parsed.waits = true;
    } else {
      return invalid_argument("{}: must be steps=N or timeout=SECONDS", printable(name));
    }
  }
  return parsed;
}

TraceRequests::TraceRequests(TraceRecorder* recorder, const Engine* engine)
    : recorder_(recorder), engine_(engine) {
  thread_ = std::thread([this] { run(); });
}

TraceRequests::~TraceRequests() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

std::vector<http::Route> TraceRequests::routes() {
  return {{"GET", "/trace",
           [this](const std::shared_ptr<http::Exchange>& exchange) { take(exchange); }}};
}

void TraceRequests::take(const std::shared_ptr<http::Exchange>& exchange) {
  const absl::StatusOr<TraceQuery> query = parse_trace_query(exchange->request().query);
  if (!query.ok()) return refuse(*exchange, 400, "invalid_query", message_of(query.status()));
  {
    MutexLock lock(&mutex_);
    if (waiting_.size() < kMaxWaiting) {
      waiting_.push_back(
          {.exchange = exchange,
           .query = *query,
           .traced_before = recorder_->traced(),
           .deadline = steady_clock::now() + std::chrono::seconds(query->timeout_s)});
      // If the engine is idle, only null steps would be traced.
      if (!is_due(waiting_.back())) recorder_->trace_next(query->steps);
      changed_.notify_all();
      return;
    }
  }
  refuse(*exchange, 429, "too_many_traces",
         "too many clients are waiting for traces at the moment");
}

void TraceRequests::run() {
  MutexLock lock(&mutex_);
  while (!stopping_) {
    if (waiting_.empty()) {
      changed_.wait(&mutex_);
      continue;
    }
    for (auto one = waiting_.begin(); one != waiting_.end();) {
      const auto next = std::next(one);
      if (is_due(*one)) {
        answer(*one);
        waiting_.erase(one);
      }
      one = next;
    }
    if (waiting_.empty()) {
      recorder_->stop_tracing();
    } else {
      changed_.wait_until(&mutex_, steady_clock::now() + kLook);
    }
  }
}

bool TraceRequests::is_traced(const Waiting& waiting) const {
  return recorder_->traced() - waiting.traced_before >= waiting.query.steps;
}

bool TraceRequests::is_due(const Waiting& waiting) const {
  if (is_traced(waiting) || steady_clock::now() >= waiting.deadline) return true;
  if (waiting.query.waits) return false;
  const EngineStats stats = engine_->stats();
  return stats.running + stats.waiting == 0;
}

void TraceRequests::answer(const Waiting& waiting) const {
  const int steps = waiting.query.steps;
  RecordedSteps recorded =
      is_traced(waiting) ? recorder_->last_traced(steps) : recorder_->last(steps);
  waiting.exchange->stream(
      {.headers = {{"Content-Type", "application/json"}, {"Cache-Control", "no-store"}}},
      std::make_unique<TraceJson>(std::move(recorded)));
}

}  // namespace lockstep
