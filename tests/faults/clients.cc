// SPDX-License-Identifier: Apache-2.0
#include "tests/faults/clients.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace lockstep::faults {

Clients::Clients(const std::shared_ptr<grpc::Channel>& channel,
                 const std::vector<Question>& questions, int count, std::chrono::seconds patience)
    : questions_(questions), patience_(patience), stub_(v1::Generation::NewStub(channel)) {
  for (int client = 0; client < count; ++client) {
    threads_.emplace_back([this, client] { run(client); });
  }
}

Clients::~Clients() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  for (std::thread& thread : threads_) thread.join();
}

void Clients::pause() {
  const std::scoped_lock lock(mutex_);
  paused_ = true;
}

void Clients::resume() {
  const std::scoped_lock lock(mutex_);
  paused_ = false;
  changed_.notify_all();
}

ClientTally Clients::tally() const {
  const std::scoped_lock lock(mutex_);
  ClientTally tally = tally_;
  std::sort(tally.pauses_ms.begin(), tally.pauses_ms.end());
  return tally;
}

std::string Clients::broken_promise() const {
  const std::scoped_lock lock(mutex_);
  return broken_promise_;
}

bool Clients::may_go_on() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return stopping_ || !paused_; });
  return !stopping_;
}

void Clients::run(int client) {
  for (size_t next = client; may_go_on(); ++next) {
    const Question& question = questions_[next % questions_.size()];
    const Answer answer = ask(*stub_, question.request, patience_);
    note(question, answer);
  }
}

void Clients::note(const Question& question, const Answer& answer) {
  const std::scoped_lock lock(mutex_);
  const grpc::Status& status = answer.status;
  std::string broken;
  if (status.ok()) {
    ++tally_.served;
    tally_.pauses_ms.push_back(answer.pause.count());
    if (question.variant_of(answer.choices) < 0) broken = "a client's answer has other bits";
  } else if (!was_rewritten(status)) {
    broken = fmt::format("a stream ended with code {}: {}", static_cast<int>(status.error_code()),
                         status.error_message());
  } else {
    ++tally_.rewritten;
    if (!question.begins_an_answer(answer.choices)) broken = "an ended stream has other bits";
  }
  if (broken_promise_.empty()) broken_promise_ = std::move(broken);
}

}  // namespace lockstep::faults
