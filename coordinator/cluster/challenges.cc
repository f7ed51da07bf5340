// SPDX-License-Identifier: Apache-2.0
#include "coordinator/cluster/challenges.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/status.h"
#include "proto/handshake.h"

namespace lockstep {

void Challenges::forget_old(int64_t now) {
  while (!open_.empty() && open_.front().until <= now) open_.pop_front();
}

absl::StatusOr<cluster::ChallengeReply> Challenges::open(int64_t now, std::string_view nonce,
                                                         std::string fresh) {
  std::optional<std::string> worker_nonce = from_hex(nonce);
  if (!worker_nonce.has_value() || worker_nonce->size() != kNonceBytes) {
    return invalid_argument("{}: wanted {} hexadecimal digits, found {} bytes", kNonceMetadata,
                            2 * kNonceBytes, nonce.size());
  }
  forget_old(now);
  if (open_.size() >= kOpenNonces) open_.pop_front();
  cluster::ChallengeReply reply;
  reply.set_nonce(fresh);
  reply.set_proof(coordinator_proof(token_, *worker_nonce, fresh));
  open_.push_back({std::move(fresh), *std::move(worker_nonce), now + kNonceMs});
  return reply;
}

absl::Status Challenges::verify(int64_t now, std::string_view nonce, std::string_view proof) {
  forget_old(now);
  const std::optional<std::string> bytes = from_hex(nonce);
  const std::optional<std::string> found = from_hex(proof);
  if (!bytes.has_value() || bytes->empty() || !found.has_value()) {
    return absl::PermissionDeniedError("a worker joins with a nonce and a proof; it sent none");
  }
  const auto open = std::find_if(open_.begin(), open_.end(),
                                 [&](const Open& one) { return one.nonce == *bytes; });
  if (open == open_.end()) {
    return unavailable("the nonce was used, or is older than {} ms: ask for another", kNonceMs);
  }
  const Open taken = std::move(*open);
  open_.erase(open);
  if (same_secret(*found, worker_proof(token_, taken.nonce, taken.worker_nonce))) {
    return absl::OkStatus();
  }
  return absl::PermissionDeniedError("the join token is not the coordinator's");
}

}  // namespace lockstep
