// SPDX-License-Identifier: Apache-2.0
#include "coordinator/ports/buffered_bytes.h"

#include <utility>

namespace lockstep {

BufferedBytes::Sums BufferedBytes::Share::hold(int64_t bytes) {
  return all_.add(client_, bytes - std::exchange(bytes_, bytes));
}

void BufferedBytes::Share::belong_to(const std::string& client) {
  if (client == client_) return;
  const int64_t bytes = bytes_;
  hold(0);
  client_ = client;
  hold(bytes);
}

BufferedBytes::Sums BufferedBytes::add(const std::string& client, int64_t bytes) {
  MutexLock lock(&mutex_);
  all_ += bytes;
  const auto clients = static_cast<int64_t>(by_client_.size());
  if (client.empty()) return {.of_client = 0, .of_all = all_, .clients = clients};
  const auto own = by_client_.try_emplace(client).first;
  const Sums sums = {.of_client = own->second += bytes,
                     .of_all = all_,
                     .clients = static_cast<int64_t>(by_client_.size())};
  if (own->second == 0) by_client_.erase(own);
  return sums;
}

}  // namespace lockstep
