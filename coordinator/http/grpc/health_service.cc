// SPDX-License-Identifier: Apache-2.0
#include "coordinator/http/grpc/health_service.h"

#include <utility>

#include "base/status.h"
#include "coordinator/http/grpc/wire.h"
#include "proto/health.pb.h"

namespace lockstep {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

HealthCheckResponse response_of(HealthCheckResponse::ServingStatus status) {
  HealthCheckResponse response;
  response.set_status(status);
  return response;
}

HealthCheckResponse::ServingStatus status_of(std::optional<bool> is_ready) {
  if (!is_ready.has_value()) return HealthCheckResponse::SERVICE_UNKNOWN;
  return *is_ready ? HealthCheckResponse::SERVING : HealthCheckResponse::NOT_SERVING;
}

absl::StatusOr<std::string> service_in(const http::Request& request) {
  ASSIGN_OR_RETURN(const std::string_view bytes,
                   message_in(request, HealthService::kMaxRequestBytes));
  HealthCheckRequest message;
  RETURN_IF_ERROR(parse(bytes, &message));
  return message.service();
}

// Writes the status at first, and whenever it has changed.
class StatusSource final : public http::BodySource {
 public:
  StatusSource(HealthService::IsReady is_ready, std::string service, std::shared_ptr<void> token)
      : is_ready_(std::move(is_ready)), service_(std::move(service)), token_(std::move(token)) {}

  State read(std::string* bytes) override {
    const auto now = status_of(is_ready_(service_));
    if (last_ != now) append_message(response_of(now), bytes);
    last_ = now;
    return State::kMore;
  }

 private:
  const HealthService::IsReady is_ready_;
  const std::string service_;
  const std::shared_ptr<void> token_;
  std::optional<HealthCheckResponse::ServingStatus> last_;
};

}  // namespace

void HealthService::answer(const std::shared_ptr<http::Exchange>& exchange) {
  const std::string_view method = std::string_view(exchange->request().path).substr(kPrefix.size());
  const absl::Status status = method == "Check"   ? check(exchange)
                              : method == "Watch" ? watch(exchange)
                                                  : no_such_method();
  if (!status.ok()) fail(exchange, status);
}

void HealthService::wake_watchers() {
  MutexLock lock(&mutex_);
  for (const Watcher& watcher : watchers_) watcher.wake();
}

absl::Status HealthService::check(const std::shared_ptr<http::Exchange>& exchange) const {
  ASSIGN_OR_RETURN(const std::string service, service_in(exchange->request()));
  const std::optional<bool> is_ready = is_ready_(service);
  if (!is_ready.has_value()) return absl::NotFoundError("there is no such service");
  reply(exchange, response_of(status_of(is_ready)));
  return absl::OkStatus();
}

absl::Status HealthService::watch(const std::shared_ptr<http::Exchange>& exchange) {
  ASSIGN_OR_RETURN(std::string service, service_in(exchange->request()));
  auto token = std::make_shared<char>();
  {
    MutexLock lock(&mutex_);
    if (watchers_.size() >= next_sweep_) {
      std::erase_if(watchers_, [](const Watcher& watcher) { return watcher.call.expired(); });
      next_sweep_ = 2 * watchers_.size() + 16;
    }
    watchers_.push_back({.call = token, .wake = exchange->waker()});
  }
  exchange->stream(answer_head(),
                   std::make_unique<StatusSource>(is_ready_, std::move(service), std::move(token)));
  return absl::OkStatus();
}

}  // namespace lockstep
