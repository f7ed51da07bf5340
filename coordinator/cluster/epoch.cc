// SPDX-License-Identifier: Apache-2.0
#include "coordinator/cluster/epoch.h"

#include "base/status.h"

namespace lockstep {

Epoch::Epoch(uint64_t number, std::vector<std::shared_ptr<WorkerLink>> members)
    : number_(number), members_(std::move(members)), mail_(members_.size()) {}

int Epoch::rank_of(const WorkerLink* link) const {
  for (int rank = 0; rank < ranks(); ++rank) {
    if (members_[rank].get() == link) return rank;
  }
  return -1;
}

void Epoch::send(int rank, cluster::CoordinatorMessage message) {
  message.set_epoch(number_);
  members_[rank]->send(std::move(message));
}

void Epoch::broadcast(const cluster::CoordinatorMessage& message) {
  for (int rank = 0; rank < ranks(); ++rank) send(rank, message);
}

void Epoch::deliver(int rank, cluster::WorkerMessage message) {
  absl::MutexLock lock(&mutex_);
  mail_[rank].push_back(std::move(message));
}

void Epoch::fail(absl::Status reason) {
  absl::MutexLock lock(&mutex_);
  if (over_.ok()) over_ = std::move(reason);
}

bool Epoch::complete_or_over() const {
  if (!over_.ok()) return true;
  for (const auto& mail : mail_) {
    if (mail.empty()) return false;
  }
  return true;
}

absl::StatusOr<std::vector<cluster::WorkerMessage>> Epoch::collect(absl::Duration timeout) {
  absl::MutexLock lock(&mutex_);
  mutex_.AwaitWithTimeout(absl::Condition(this, &Epoch::complete_or_over), timeout);
  if (!over_.ok()) return over_;
  std::vector<cluster::WorkerMessage> messages;
  std::string silent;
  for (int rank = 0; rank < ranks(); ++rank) {
    if (mail_[rank].empty()) {
      silent += fmt::format("{}rank {}", silent.empty() ? "" : ", ", rank);
      continue;
    }
    messages.push_back(std::move(mail_[rank].front()));
    mail_[rank].pop_front();
  }
  if (silent.empty()) return messages;
  over_ = unavailable("no answer from {} within {} s", silent, absl::ToInt64Seconds(timeout));
  return over_;
}

}  // namespace lockstep
