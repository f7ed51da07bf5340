// SPDX-License-Identifier: Apache-2.0
#include "coordinator/admission/queue_times.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/status.h"
#include "coordinator/admission/admission.h"

namespace lockstep {
namespace {

constexpr double kMemoryNs = 10e9;
constexpr double kEnoughStarts = 8;  // If fewer requests began lately, there is no estimate.

}  // namespace

absl::Status QueueTimes::check(const EngineRequest& request, int64_t now_ns) const {
  const int64_t left_ms = request.deadline_ms - now_ns / 1'000'000;
  const bool has_deadline = request.deadline_ms > 0;
  const int64_t bound_ms = max_wait_ms_ > 0 ? max_wait_ms_ : INT64_MAX;
  const int64_t max_ms =
      std::max<int64_t>(has_deadline ? std::min(left_ms, bound_ms) : bound_ms, 0);
  const int64_t wait_ms = this->wait_ms(request, now_ns);
  if (wait_ms <= max_ms) return absl::OkStatus();
  refused_.fetch_add(1);
  return retry_after(
      resource_exhausted("the queue is full: a request waits about {} s, {} {} s; try again later",
                         (wait_ms + 999) / 1000,
                         max_ms < bound_ms ? "this one's deadline is in" : "the max is",
                         (max_ms + 999) / 1000),
      (wait_ms - max_ms + 999) / 1000);
}

int64_t QueueTimes::wait_ms(const EngineRequest& request, int64_t now_ns) const {
  MutexLock lock(&mutex_);
  if (started_ < kEnoughStarts) return 0;
  int64_t before = 0;
  for (const auto& [priority, line] : lines_) {
    if (priority > request.priority) break;
    if (priority < request.priority) {
      before += line.waiting;
      continue;
    }
    const auto own = line.by_client.find(request.client);
    const int64_t position = own == line.by_client.end() ? 1 : own->second + 1;
    for (const auto& [count, clients] : line.clients_with) {
      if (count > position) break;
      before += clients;
    }
  }
  const double busy_ns = busy_ns_ + static_cast<double>(std::max<int64_t>(now_ns - now_ns_, 0));
  return std::llround(static_cast<double>(before) * busy_ns / started_ / 1e6);
}

void QueueTimes::on_submitted(const Stream* stream, const EngineRequest& request,
                              int64_t submitted_ns) {
  MutexLock lock(&mutex_);
  pass(submitted_ns);
  const Place& place = waiting_[stream] = {.priority = request.priority, .client = request.client};
  count(place, 1);
}

void QueueTimes::on_set_aside(const Stream* stream) {
  MutexLock lock(&mutex_);
  leave(stream);
}

void QueueTimes::on_started(const Stream* stream, int64_t now_ns) {
  MutexLock lock(&mutex_);
  pass(now_ns);
  if (leave(stream)) ++started_;
}

void QueueTimes::on_closed(const Stream* stream, const absl::Status&, int64_t now_ns) {
  MutexLock lock(&mutex_);
  pass(now_ns);
  leave(stream);
}

void QueueTimes::pass(int64_t now_ns) {
  const auto past_ns = static_cast<double>(std::max<int64_t>(now_ns - now_ns_, 0));
  now_ns_ = std::max(now_ns, now_ns_);
  if (waiting_.empty()) return;
  const double kept = std::exp(-past_ns / kMemoryNs);
  busy_ns_ = busy_ns_ * kept + past_ns;
  started_ *= kept;
}

bool QueueTimes::leave(const Stream* stream) {
  const auto found = waiting_.find(stream);
  if (found == waiting_.end()) return false;
  count(found->second, -1);
  waiting_.erase(found);
  return true;
}

void QueueTimes::count(const Place& place, int64_t change) {
  Line& line = lines_[place.priority];
  int64_t& own = line.by_client[place.client];
  line.waiting += change;
  if (change > 0) ++line.clients_with[++own];
  if (change < 0) {
    const auto with = line.clients_with.find(own--);
    LOCKSTEP_CHECK(with != line.clients_with.end());
    if (--with->second == 0) line.clients_with.erase(with);
  }
  if (own == 0) line.by_client.erase(place.client);
  if (line.waiting == 0) lines_.erase(place.priority);
}

}  // namespace lockstep
