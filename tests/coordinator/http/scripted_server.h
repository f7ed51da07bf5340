// SPDX-License-Identifier: Apache-2.0
// A server for tests of sockets, which answers each path in its own way.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/threads/mutex.h"
#include "coordinator/http/connection/server.h"
#include "coordinator/http/event_stream.h"
#include "tests/coordinator/http/counted_sources.h"
#include "tests/support/network/http2_client.h"
#include "tests/support/network/http_client.h"
#include "tests/support/patience.h"

namespace lockstep::http {

using testing::Http2Answer;
using testing::Http2Client;
using testing::http_request;
using testing::HttpAnswer;
using testing::HttpClient;

inline ServerOptions http2_options(const Limits& limits = {}) {
  return {.protocol = TlsProtocol::kHttp2, .limits = limits};
}

// /quick answers at once, /echo with the body, /held and /stream when the test says so, /endless
// sends without end, /slow in pieces that take long to make, and /dropped never answers. With
// HTTP/2, /pieces answers each piece of the request's body with this piece; /pieces/endless does so
// without a time limit. /keep calls keep_connection().
class ScriptedServer {
 public:
  explicit ScriptedServer(const Limits& limits = {}, int64_t max_connections = 5000,
                          const TlsFiles& tls = {})
      : ScriptedServer(
            ServerOptions{.max_connections = max_connections, .limits = limits, .tls = tls}) {}
  // Listens on a port of its own.
  explicit ScriptedServer(ServerOptions options) : protocol_(options.protocol) {
    options.address = "127.0.0.1:0";
    if (protocol_ == TlsProtocol::kHttp2) {
      options.gate = [](const Request& head) {
        return Admission{.streams_body = head.path.starts_with("/pieces"),
                         .has_endless_body = head.path == "/pieces/endless"};
      };
    }
    auto server = Server::start(
        options, [this](std::shared_ptr<Exchange> exchange) { answer(std::move(exchange)); });
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  // The server's handler uses this object, so the server must end first.
  ~ScriptedServer() { stop(); }

  Server& server() { return *server_; }
  const std::string& address() const { return server_->address(); }
  Counts& counts() { return counts_; }
  void stop() { server_.reset(); }

  // Waits for the next request for /held or /stream.
  std::shared_ptr<Exchange> take_held() {
    std::shared_ptr<Exchange> exchange;
    EXPECT_TRUE(becomes_true([&] {
      MutexLock lock(&mutex_);
      if (held_.empty()) return false;
      exchange = std::move(held_.front());
      held_.erase(held_.begin());
      return true;
    }));
    return exchange;
  }
  std::shared_ptr<Feed> begin_stream(const std::shared_ptr<Exchange>& exchange) {
    auto feed = std::make_shared<Feed>();
    exchange->stream(event_stream_head(), std::make_unique<FedSource>(&counts_, feed));
    return feed;
  }
  void expect_alive() {
    if (protocol_ == TlsProtocol::kHttp2) {
      Http2Client client(address());
      EXPECT_EQ(client.wait(client.get("/quick")).body, "quick");
      return;
    }
    HttpClient client(address());
    EXPECT_EQ(client.get("/quick").body, "quick");
  }

 private:
  void answer(std::shared_ptr<Exchange> exchange) {
    ++counts_.requests;
    const std::string& path = exchange->request().path;
    if (path == "/quick") return exchange->respond({.body = "quick"});
    if (path == "/echo") return exchange->respond({.body = exchange->request().body});
    if (path == "/endless") {
      return exchange->stream({}, std::make_unique<EndlessSource>(&counts_));
    }
    if (path == "/slow") {
      return exchange->stream({}, std::make_unique<SlowSource>(&counts_));
    }
    if (path == "/dropped") return;
    if (path == "/keep") {
      exchange->keep_connection();
      return exchange->respond({.body = "kept"});
    }
    if (path.starts_with("/pieces")) {
      auto feed = std::make_shared<Feed>();
      exchange->on_body([feed, wake = exchange->waker()](std::string_view bytes, bool is_last) {
        feed->say(std::string(bytes), is_last);
        wake();
      });
      return exchange->stream({}, std::make_unique<FedSource>(&counts_, std::move(feed)));
    }
    exchange->on_gone([this] { ++counts_.gone; });
    MutexLock lock(&mutex_);
    held_.push_back(std::move(exchange));
  }

  const TlsProtocol protocol_;
  Counts counts_;
  Mutex mutex_;
  std::vector<std::shared_ptr<Exchange>> held_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<Server> server_;
};

}  // namespace lockstep::http
