// SPDX-License-Identifier: Apache-2.0
// An exchange that wraps another one, for code in front of a handler: a subclass overrides what it
// changes.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "coordinator/http/exchange.h"

namespace lockstep::http {

class ForwardingExchange : public Exchange {
 public:
  explicit ForwardingExchange(std::shared_ptr<Exchange> exchange)
      : exchange_(std::move(exchange)) {}
  const Request& request() const override { return exchange_->request(); }
  void drop_body() override { exchange_->drop_body(); }
  const std::string& client() const override { return exchange_->client(); }
  std::shared_ptr<Permit> permit() const override { return exchange_->permit(); }
  void respond(Response response) override { exchange_->respond(std::move(response)); }
  void stream(Response head, std::unique_ptr<BodySource> source) override {
    exchange_->stream(std::move(head), std::move(source));
  }
  void wake() override { exchange_->wake(); }
  std::function<void()> waker() override { return exchange_->waker(); }
  void on_gone(std::function<void()> gone) override { exchange_->on_gone(std::move(gone)); }

 private:
  const std::shared_ptr<Exchange> exchange_;
};

}  // namespace lockstep::http
