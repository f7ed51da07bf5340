// SPDX-License-Identifier: Apache-2.0
// A server whose paths do what a test of sockets needs.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/threads/mutex.h"
#include "coordinator/http/connection/server.h"
#include "coordinator/http/event_stream.h"
#include "tests/support/network/http_client.h"
#include "tests/support/patience.h"

namespace lockstep::http {

using testing::http_request;
using testing::HttpAnswer;
using testing::HttpClient;

// What a test says to a stream from outside.
class Feed {
 public:
  void say(const std::string& text, bool end = false) ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    text_ += text;
    end_ |= end;
  }
  BodySource::State take(std::string* bytes) ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    *bytes += std::exchange(text_, "");
    return end_ ? BodySource::State::kEnd : BodySource::State::kMore;
  }

 private:
  Mutex mutex_;
  std::string text_ ABSL_GUARDED_BY(mutex_);
  bool end_ ABSL_GUARDED_BY(mutex_) = false;
};

struct Counts {
  std::atomic<int> requests{0};
  std::atomic<int> gone{0};
  std::atomic<int> sources{0};          // That are alive.
  std::atomic<int64_t> bytes_given{0};  // By endless sources.
};

class CountedSource : public EventSource {
 public:
  explicit CountedSource(Counts* counts) : counts_(counts) { ++counts_->sources; }
  ~CountedSource() override { --counts_->sources; }

 protected:
  Counts* const counts_;
};

class FedSource final : public CountedSource {
 public:
  FedSource(Counts* counts, std::shared_ptr<Feed> feed)
      : CountedSource(counts), feed_(std::move(feed)) {}
  State read(std::string* bytes) override { return feed_->take(bytes); }

 private:
  const std::shared_ptr<Feed> feed_;
};

class EndlessSource final : public CountedSource {
 public:
  using CountedSource::CountedSource;
  State read(std::string* bytes) override {
    bytes->append(kPieceBytes, 'x');
    counts_->bytes_given += kPieceBytes;
    return State::kMore;
  }
};

// /quick answers at once, /echo with the body, /held and /stream when the test says so, /endless
// without end, /dropped never.
class ScriptedServer {
 public:
  explicit ScriptedServer(const Limits& limits = {}, int64_t max_connections = 5000,
                          const TlsFiles& tls = {})
      : ScriptedServer(
            ServerOptions{.max_connections = max_connections, .limits = limits, .tls = tls}) {}
  // At a port of its own.
  explicit ScriptedServer(ServerOptions options) {
    options.address = "127.0.0.1:0";
    auto server = Server::start(
        options, [this](std::shared_ptr<Exchange> exchange) { answer(std::move(exchange)); });
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  // Its handler uses this object: it ends first.
  ~ScriptedServer() { stop(); }

  Server& server() { return *server_; }
  const std::string& address() const { return server_->address(); }
  Counts& counts() { return counts_; }
  void stop() { server_.reset(); }

  // The next request for /held or /stream, once it is there.
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
    if (path == "/dropped") return;
    exchange->on_gone([this] { ++counts_.gone; });
    MutexLock lock(&mutex_);
    held_.push_back(std::move(exchange));
  }

  Counts counts_;
  Mutex mutex_;
  std::vector<std::shared_ptr<Exchange>> held_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<Server> server_;
};

}  // namespace lockstep::http
