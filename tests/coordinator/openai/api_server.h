// SPDX-License-Identifier: Apache-2.0
// The routes of the API without sockets, with the real engine and workers that do no arithmetic.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "coordinator/openai/api.h"
#include "tests/support/cluster/fake_cluster.h"
#include "tests/support/network/fake_exchange.h"

namespace lockstep::openai {

using testing::FakeExchange;

class ApiServer {
 public:
  explicit ApiServer(const EngineOptions& options = {}, const ModelOptions& model_options = {},
                     const ApiOptions& api_options = {},
                     const ResumableOptions& resumable_options = {})
      : resumable_(resumable_options) {
    auto model = Model::open(model_options);
    EXPECT_TRUE(model.ok()) << model.status();
    model_ = *std::move(model);
    FakeModel fake;
    fake.vocab = model_->config().vocab_size;
    fake.pages = 256;
    fake.page_tokens = 16;
    fake.max_context = model_->max_context();
    cluster_ = std::make_unique<FakeCluster>(fake);
    engine_ = std::make_unique<Engine>(cluster_.get(), model_->tokenizer(), options);
    EXPECT_TRUE(engine_->wait_ready().ok());
    pool_ = std::make_unique<TaskPool>(TaskPoolOptions());
    auto api =
        Api::create({.model = model_.get(), .engine = engine_.get(), .resumable = &resumable_},
                    pool_.get(), api_options);
    EXPECT_TRUE(api.ok()) << api.status();
    api_ = *std::move(api);
  }
  // The pool ends first: its tasks use the other members.
  ~ApiServer() { pool_.reset(); }

  const Model& model() const { return *model_; }
  FakeCluster& cluster() { return *cluster_; }
  Engine& engine() { return *engine_; }
  Api& api() { return *api_; }
  ResumableStreams& resumable() { return resumable_; }
  TaskPool& pool() { return *pool_; }

  // Hands a request to the route of this method and pattern.
  std::shared_ptr<FakeExchange> send(const std::string& method, const std::string& pattern,
                                     const std::string& body, const std::string& path = {},
                                     const http::Headers& headers = {}) {
    return hand_over(pattern, std::make_shared<FakeExchange>(method, path.empty() ? pattern : path,
                                                             body, headers));
  }
  std::shared_ptr<FakeExchange> hand_over(const std::string& pattern,
                                          const std::shared_ptr<FakeExchange>& exchange,
                                          const http::PathParameters& parameters = {}) {
    if (parameters.empty()) {
      const http::Router router(api_->routes());
      router(exchange);
      return exchange;
    }
    const std::string& method = exchange->request().method;
    for (const http::Route& route : api_->routes()) {
      if (method == route.method && pattern == route.path) {
        route.handler(exchange, parameters);
        return exchange;
      }
    }
    ADD_FAILURE() << "no route " << method << " " << pattern;
    return exchange;
  }
  http::Response post(const std::string& path, const std::string& body) {
    return send("POST", path, body)->wait();
  }
  // The answer's body, with any status.
  OrderedJson post_json(const std::string& path, const OrderedJson& body) {
    return OrderedJson::parse(post(path, body.dump()).body);
  }

 private:
  ResumableStreams resumable_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<FakeCluster> cluster_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<TaskPool> pool_;
  std::unique_ptr<Api> api_;
};

// Appends each list of an object to the list of the same name.
inline void append_lists(const OrderedJson& more, OrderedJson* lists) {
  for (const auto& [name, values] : more.items()) {
    for (const OrderedJson& value : values) (*lists)[name].push_back(value);
  }
}

struct SseEvent {
  std::string id;  // Empty: none.
  std::string data;
};

inline std::vector<SseEvent> events_of(const std::string& bytes) {
  std::vector<SseEvent> events;
  SseEvent event;
  for (size_t at = 0; at < bytes.size();) {
    const size_t end = bytes.find('\n', at);
    if (end == std::string::npos) {
      ADD_FAILURE() << "a line without an end";
      break;
    }
    const std::string line = bytes.substr(at, end - at);
    at = end + 1;
    if (line.starts_with("id: ")) event.id = line.substr(4);
    if (line.starts_with("data: ")) event.data = line.substr(6);
    if (line.empty()) events.push_back(std::exchange(event, {}));
  }
  return events;
}

}  // namespace lockstep::openai
