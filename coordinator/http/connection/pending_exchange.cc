// SPDX-License-Identifier: Apache-2.0
#include "coordinator/http/connection/pending_exchange.h"

#include "base/check.h"

namespace lockstep::http {

PendingExchange::~PendingExchange() {
  if (answered_) return;
  mailbox_->post([answerer = answerer_] {
    if (const auto open = answerer.lock(); open != nullptr) open->abandon();
  });
}

void PendingExchange::respond(Response response) {
  LOCKSTEP_CHECK(!answered_.exchange(true));
  drop_body();
  lose_unless_posted(
      mailbox_->post([self = shared_from_this(), response = std::move(response)]() mutable {
        const auto open = self->answerer_.lock();
        if (open != nullptr) open->respond(std::move(self), std::move(response));
      }));
}

void PendingExchange::stream(Response head, std::unique_ptr<BodySource> source) {
  LOCKSTEP_CHECK(!answered_.exchange(true));
  drop_body();
  lose_unless_posted(mailbox_->post(
      [self = shared_from_this(), head = std::move(head), source = std::move(source)]() mutable {
        const auto open = self->answerer_.lock();
        if (open != nullptr) open->stream(std::move(self), head, std::move(source));
      }));
}

void PendingExchange::wake() {
  if (woken_.exchange(true)) return;
  mailbox_->post([answerer = answerer_] {
    if (const auto open = answerer.lock(); open != nullptr) open->pump();
  });
}

std::function<void()> PendingExchange::waker() {
  return [weak = weak_from_this()] {
    if (const std::shared_ptr<PendingExchange> alive = weak.lock()) alive->wake();
  };
}

void PendingExchange::on_gone(std::function<void()> gone) {
  {
    MutexLock lock(&mutex_);
    if (end_ == End::kFinished) return;
    if (end_ == End::kOpen) {
      gone_ = std::move(gone);
      return;
    }
  }
  if (!mailbox_->post(gone)) gone();
}

void PendingExchange::finish() {
  std::function<void()> gone;  // Destroyed after the lock: it may own this exchange's owner.
  MutexLock lock(&mutex_);
  end_ = End::kFinished;
  gone.swap(gone_);
}

void PendingExchange::lose() {
  std::function<void()> gone;
  {
    MutexLock lock(&mutex_);
    if (end_ != End::kOpen) return;
    end_ = End::kGone;
    gone.swap(gone_);
  }
  if (gone) gone();
}

}  // namespace lockstep::http
