// SPDX-License-Identifier: Apache-2.0
// A request over HTTP without sockets. A test waits for the answer, reads it, or hangs up.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "base/threads/mutex.h"
#include "coordinator/http/exchange.h"

namespace lockstep::testing {

class FakeExchange final : public http::Exchange,
                           public std::enable_shared_from_this<FakeExchange> {
 public:
  // `path` may include a query.
  FakeExchange(std::string method, const std::string& path, std::string body,
               http::Headers headers = {})
      : request_{.method = std::move(method),
                 .path = path.substr(0, path.find('?')),
                 .query = path.substr(std::min(path.find('?'), path.size() - 1) + 1),
                 .headers = std::move(headers),
                 .body = std::move(body),
                 .peer = "127.0.0.1:1"} {}

  const http::Request& request() const override { return request_; }
  // Call it before the handler gets the request.
  void come_from_another_machine() { request_.on_loopback = false; }

  void respond(http::Response response) override {
    MutexLock lock(&mutex_);
    EXPECT_FALSE(response_.has_value()) << "answered twice";
    response_ = std::move(response);
    changed_.notify_all();
  }
  void stream(http::Response head, std::unique_ptr<http::BodySource> source) override {
    MutexLock lock(&mutex_);
    EXPECT_FALSE(response_.has_value()) << "answered twice";
    response_ = std::move(head);
    if (!is_gone_) source_ = std::move(source);
    woken_ = true;
    changed_.notify_all();
  }
  void wake() override {
    MutexLock lock(&mutex_);
    woken_ = true;
    changed_.notify_all();
  }
  std::function<void()> waker() override {
    return [weak = weak_from_this()] {
      if (const std::shared_ptr<FakeExchange> alive = weak.lock()) alive->wake();
    };
  }
  void on_gone(std::function<void()> gone) override {
    {
      MutexLock lock(&mutex_);
      if (!is_gone_) gone_ = gone;
      if (!is_gone_) return;
    }
    gone();
  }

  // The client hangs up.
  void go() {
    std::function<void()> gone;
    std::unique_ptr<http::BodySource> source;
    {
      MutexLock lock(&mutex_);
      is_gone_ = true;
      gone = std::exchange(gone_, nullptr);
      source = std::move(source_);
    }
    if (gone) gone();
  }

  // wait_head() waits for the head. read_more() waits for more bytes of a stream; false: the stream
  // has ended.
  http::Response wait_head() {
    MutexLock lock(&mutex_);
    while (!response_.has_value()) changed_.wait(&mutex_);
    return *response_;
  }
  bool read_more(std::string* bytes) {
    MutexLock lock(&mutex_);
    while (source_ != nullptr) {
      std::string piece;  // A new string for each piece: read() appends only up to a limit.
      woken_ = false;
      if (source_->read(&piece) == http::BodySource::State::kEnd) source_ = nullptr;
      *bytes += piece;
      if (!piece.empty()) return true;
      while (source_ != nullptr && !woken_) changed_.wait(&mutex_);
    }
    return false;
  }
  // The whole answer, streamed or not.
  http::Response wait() {
    http::Response response = wait_head();
    while (read_more(&response.body)) {
    }
    return response;
  }
  bool is_answered() const {
    MutexLock lock(&mutex_);
    return response_.has_value();
  }

 private:
  http::Request request_;
  mutable Mutex mutex_;
  ConditionVariable changed_;
  std::optional<http::Response> response_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<http::BodySource> source_ ABSL_GUARDED_BY(mutex_);
  std::function<void()> gone_ ABSL_GUARDED_BY(mutex_);
  bool woken_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_gone_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace lockstep::testing
