// SPDX-License-Identifier: Apache-2.0
#include "coordinator/api/grpc/health_service.h"

#include <chrono>
#include <optional>
#include <string>
#include <utility>

#include "base/status.h"
#include "coordinator/api/grpc/wire.h"
#include "proto/health.pb.h"

namespace lockstep {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

constexpr std::chrono::milliseconds kPoll{50};

HealthCheckResponse response_of(HealthCheckResponse::ServingStatus status) {
  HealthCheckResponse response;
  response.set_status(status);
  return response;
}

HealthCheckResponse::ServingStatus status_of(bool is_ready) {
  return is_ready ? HealthCheckResponse::SERVING : HealthCheckResponse::NOT_SERVING;
}

absl::StatusOr<std::string> service_in(const http::Request& request) {
  ASSIGN_OR_RETURN(const std::string_view bytes, message_in(request));
  HealthCheckRequest message;
  RETURN_IF_ERROR(parse(bytes, &message));
  return message.service();
}

bool is_known(const std::string& service) {
  return service.empty() || service == "lockstep.v1.Generation";
}

// Writes the status whenever it changed.
class StatusSource final : public http::BodySource {
 public:
  // `ready`: null for a service that does not exist.
  StatusSource(std::shared_ptr<const std::atomic<bool>> ready, std::shared_ptr<void> token)
      : ready_(std::move(ready)), token_(std::move(token)) {}

  State read(std::string* bytes) override {
    const auto now = ready_ != nullptr ? status_of(*ready_) : HealthCheckResponse::SERVICE_UNKNOWN;
    if (last_ != now) append_message(response_of(now), bytes);
    last_ = now;
    return State::kMore;
  }

 private:
  const std::shared_ptr<const std::atomic<bool>> ready_;
  const std::shared_ptr<void> token_;
  std::optional<HealthCheckResponse::ServingStatus> last_;
};

}  // namespace

HealthService::HealthService(Engine* engine) : engine_(engine) {
  thread_ = std::thread([this] { follow(); });
}

HealthService::~HealthService() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    stop_.notify_all();
  }
  thread_.join();
}

void HealthService::follow() {
  MutexLock lock(&mutex_);
  while (!stopping_) {
    const bool is_ready = this->is_ready();
    if (ready_->exchange(is_ready) != is_ready) {
      for (const Watcher& watcher : watchers_) watcher.wake();
    }
    stop_.wait_until(&mutex_, std::chrono::steady_clock::now() + kPoll);
  }
}

void HealthService::answer(const std::shared_ptr<http::Exchange>& exchange) {
  const std::string_view method = std::string_view(exchange->request().path).substr(kPrefix.size());
  const absl::Status status = method == "Check"   ? check(exchange)
                              : method == "Watch" ? watch(exchange)
                                                  : no_such_method();
  if (!status.ok()) fail(exchange, status);
}

absl::Status HealthService::check(const std::shared_ptr<http::Exchange>& exchange) const {
  ASSIGN_OR_RETURN(const std::string service, service_in(exchange->request()));
  if (!is_known(service)) return absl::NotFoundError("there is no such service");
  reply(exchange, response_of(status_of(is_ready())));
  return absl::OkStatus();
}

absl::Status HealthService::watch(const std::shared_ptr<http::Exchange>& exchange) {
  ASSIGN_OR_RETURN(const std::string service, service_in(exchange->request()));
  auto token = std::make_shared<char>();
  {
    MutexLock lock(&mutex_);
    if (watchers_.size() >= next_sweep_) {
      std::erase_if(watchers_, [](const Watcher& watcher) { return watcher.call.expired(); });
      next_sweep_ = 2 * watchers_.size() + 16;
    }
    watchers_.push_back({.call = token, .wake = exchange->waker()});
  }
  exchange->stream(answer_head(), std::make_unique<StatusSource>(
                                      is_known(service) ? ready_ : nullptr, std::move(token)));
  return absl::OkStatus();
}

}  // namespace lockstep
