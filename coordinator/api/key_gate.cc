// SPDX-License-Identifier: Apache-2.0
#include "coordinator/api/key_gate.h"

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "coordinator/engine/request_log.h"
#include "coordinator/http/connection/forwarding_exchange.h"

namespace lockstep {
namespace {

using http::BodySource;
using http::Exchange;
using http::Response;

using Pass = std::shared_ptr<ApiKeys::KeyPass>;

// Ends the pass before the answer's last piece is sent.
class PassedSource final : public BodySource {
 public:
  PassedSource(std::unique_ptr<BodySource> source, Pass pass)
      : pass_(std::move(pass)), source_(std::move(source)) {}
  State read(std::string* bytes) override {
    const State state = source_->read(bytes);
    if (state == State::kEnd) pass_->end();
    return state;
  }
  std::string_view keep_alive() const override { return source_->keep_alive(); }

 private:
  const Pass pass_;
  const std::unique_ptr<BodySource> source_;
};

class PassedExchange final : public http::ForwardingExchange {
 public:
  PassedExchange(std::shared_ptr<Exchange> exchange, Pass pass)
      : ForwardingExchange(std::move(exchange)), pass_(std::move(pass)) {}
  const std::string& client() const override { return pass_->name(); }
  std::shared_ptr<lockstep::Pass> pass() const override { return pass_; }
  void respond(Response response) override {
    pass_->end();
    ForwardingExchange::respond(std::move(response));
  }
  void stream(Response head, std::unique_ptr<BodySource> source) override {
    ForwardingExchange::stream(std::move(head),
                               std::make_unique<PassedSource>(std::move(source), pass_));
  }

 private:
  const Pass pass_;
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

http::Gate gate_of(const ApiKeys* keys, const std::vector<std::string>& open) {
  return [=](const http::Request& head) -> http::Admission {
    if (std::ranges::count(open, head.path) > 0) return {};
    const auto pass = keys->admit(head.header("Authorization"), /*counts=*/false);
    if (pass.ok()) return {.refusal = std::nullopt, .client = (*pass)->name()};
    log_refused(head.peer, printable(head.path), /*traceparent=*/"", pass.status());
    return {.refusal = refusal_of(pass.status()), .client = ""};
  };
}

http::Handler with_keys(const ApiKeys* keys, const std::vector<std::string>& open,
                        const std::string& uncounted, const http::Handler& handler) {
  return [=](std::shared_ptr<Exchange> exchange) {
    const http::Request& request = exchange->request();
    if (std::ranges::count(open, request.path) > 0) return handler(std::move(exchange));
    auto pass = keys->admit(request.header("Authorization"),
                            /*counts=*/!request.path.starts_with(uncounted));
    if (!pass.ok()) {
      log_refused(exchange->client(), printable(request.path), /*traceparent=*/"", pass.status());
      return exchange->respond(http::render_refusal(refusal_of(pass.status())));
    }
    handler(std::make_shared<PassedExchange>(std::move(exchange), *std::move(pass)));
  };
}

}  // namespace lockstep
