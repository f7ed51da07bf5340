// SPDX-License-Identifier: Apache-2.0
#include "coordinator/api/key_gate.h"

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "coordinator/engine/request_log.h"
#include "coordinator/http/ascii.h"
#include "coordinator/http/connection/forwarding_exchange.h"

namespace lockstep {
namespace {

constexpr size_t kMaxOpenBodyBytes = 1 << 10;  // On paths that need no key.

using http::BodySource;
using http::Exchange;
using http::Response;

using Permit = std::shared_ptr<ApiKeys::KeyPermit>;

// Ends the permit before the answer's last piece is sent.
class PermitSource final : public BodySource {
 public:
  PermitSource(std::unique_ptr<BodySource> source, Permit permit)
      : permit_(std::move(permit)), source_(std::move(source)) {}
  State read(std::string* bytes) override {
    const State state = source_->read(bytes);
    if (state == State::kEnd) permit_->end();
    return state;
  }
  std::string_view keep_alive() const override { return source_->keep_alive(); }

 private:
  const Permit permit_;
  const std::unique_ptr<BodySource> source_;
};

class PermitExchange final : public http::ForwardingExchange {
 public:
  PermitExchange(std::shared_ptr<Exchange> exchange, Permit permit)
      : ForwardingExchange(std::move(exchange)), permit_(std::move(permit)) {}
  const std::string& client() const override { return permit_->name(); }
  std::shared_ptr<lockstep::Permit> permit() const override { return permit_; }
  void respond(Response response) override {
    permit_->end();
    ForwardingExchange::respond(std::move(response));
  }
  void stream(Response head, std::unique_ptr<BodySource> source) override {
    ForwardingExchange::stream(std::move(head),
                               std::make_unique<PermitSource>(std::move(source), permit_));
  }

 private:
  const Permit permit_;
};

http::Refusal refusal_of(const absl::Status& status) {
  if (status.code() == absl::StatusCode::kUnauthenticated) {
    return {.status = 401,
            .code = "invalid_api_key",
            .message = std::string(status.message()),
            .headers = {{"WWW-Authenticate", "Bearer"}}};
  }
  return {.status = 429,
          .code = "rate_limit_exceeded",
          .message = std::string(status.message()),
          .headers = {{"Retry-After", "1"}}};
}

}  // namespace

absl::StatusOr<std::unique_ptr<ApiKeys::KeyPermit>> admit_by_key(const ApiKeys& keys,
                                                                 const http::Request& request,
                                                                 bool counts) {
  const auto found = std::ranges::count_if(request.headers, [](const auto& header) {
    return http::equal_ignoring_case(header.first, "Authorization");
  });
  if (found > 1) {
    return absl::UnauthenticatedError(
        fmt::format("Authorization: must be one header, found {}", found));
  }
  return keys.admit(request.header("Authorization"), counts);
}

http::Gate gate_of(const ApiKeys* keys, const std::vector<std::string>& open) {
  return [=](const http::Request& head) -> http::Admission {
    if (std::ranges::count(open, head.path) > 0) return {.max_body_bytes = kMaxOpenBodyBytes};
    const auto permit = admit_by_key(*keys, head, /*counts=*/false);
    if (permit.ok()) return {.refusal = std::nullopt, .client = (*permit)->name()};
    log_refused(head.peer, printable(head.path), /*traceparent=*/"", permit.status());
    return {.refusal = refusal_of(permit.status()), .client = ""};
  };
}

http::Handler with_keys(const ApiKeys* keys, const std::vector<std::string>& open,
                        const std::string& uncounted, const http::Handler& handler) {
  return [=](std::shared_ptr<Exchange> exchange) {
    const http::Request& request = exchange->request();
    if (std::ranges::count(open, request.path) > 0) return handler(std::move(exchange));
    auto permit = admit_by_key(*keys, request, /*counts=*/!request.path.starts_with(uncounted));
    if (!permit.ok()) {
      log_refused(exchange->client(), printable(request.path), /*traceparent=*/"", permit.status());
      return exchange->respond(http::render_refusal(refusal_of(permit.status())));
    }
    handler(std::make_shared<PermitExchange>(std::move(exchange), *std::move(permit)));
  };
}

}  // namespace lockstep
