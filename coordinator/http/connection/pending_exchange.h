// SPDX-License-Identifier: Apache-2.0
// The exchange that handlers get. Any thread may use it: it posts answers to the I/O thread of the
// connection or stream that sends them (Answerer). Private to this folder.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>

#include "base/threads/mutex.h"
#include "coordinator/http/connection/io_thread.h"
#include "coordinator/http/exchange.h"

namespace lockstep::http {

class PendingExchange final : public Exchange,
                              public std::enable_shared_from_this<PendingExchange> {
 public:
  PendingExchange(Request request, std::weak_ptr<Answerer> answerer,
                  std::shared_ptr<Mailbox> mailbox)
      : request_(std::move(request)),
        answerer_(std::move(answerer)),
        mailbox_(std::move(mailbox)) {}
  ~PendingExchange() override;

  const Request& request() const override { return request_; }
  void drop_body() override { std::string().swap(request_.body); }
  void respond(Response response) override;
  void stream(Response head, std::unique_ptr<BodySource> source) override;
  void wake() override;
  std::function<void()> waker() override;
  void on_gone(std::function<void()> gone) override ABSL_LOCKS_EXCLUDED(mutex_);
  void on_body(const Receive& receive) override { receive_ = receive; }
  void keep_connection() override {
    if (const auto open = answerer_.lock(); open != nullptr) open->keep_connection();
  }

  // Called by the answerer before it reads the source: a wake() from now on causes another read.
  void clear_woken() { woken_ = false; }
  // Passes a piece of a streamed body to the handler's function.
  void receive(std::string_view bytes, bool is_last) const {
    if (receive_) receive_(bytes, is_last);
  }
  // The exchange is over: the client has its answer (finish), or is gone (lose).
  void finish() ABSL_LOCKS_EXCLUDED(mutex_);
  void lose() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  enum class End { kOpen, kFinished, kGone };
  // If work could not be posted, the I/O thread has ended and cannot report the client as gone.
  void lose_unless_posted(bool posted) {
    if (!posted) lose();
  }

  Request request_;
  const std::weak_ptr<Answerer> answerer_;
  const std::shared_ptr<Mailbox> mailbox_;
  Receive receive_;  // Used by the I/O thread.
  std::atomic<bool> answered_{false};
  std::atomic<bool> woken_{false};
  Mutex mutex_;
  End end_ ABSL_GUARDED_BY(mutex_) = End::kOpen;
  std::function<void()> gone_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace lockstep::http
