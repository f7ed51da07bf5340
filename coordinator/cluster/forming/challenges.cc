// SPDX-License-Identifier: Apache-2.0
// A nonce has three parts: the time in ms (8 bytes), the salt (8 bytes), and the MAC of these two,
// the worker's address and the worker's nonce (16 bytes).
#include "coordinator/cluster/forming/challenges.h"

#include <cstring>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "proto/handshake.h"

namespace lockstep {
namespace {

constexpr size_t kStatedBytes = sizeof(int64_t) + Challenges::kSaltBytes;
constexpr size_t kMacBytes = kNonceBytes - kStatedBytes;

}  // namespace

Challenges::Challenges(std::string token, std::string key)
    : token_(std::move(token)), key_(std::move(key)) {
  LOCKSTEP_CHECK(key_.size() == kNonceBytes);
}

std::string Challenges::mac(std::string_view stated, std::string_view peer,
                            std::string_view worker_nonce) const {
  return nonce_mac(key_, stated, worker_nonce, peer).substr(0, kMacBytes);
}

absl::StatusOr<cluster::ChallengeReply> Challenges::open(int64_t now, std::string_view peer,
                                                         std::string_view worker_nonce,
                                                         std::string_view salt) const {
  LOCKSTEP_CHECK(salt.size() == kSaltBytes);
  const std::optional<std::string> bytes = from_hex(worker_nonce);
  if (!bytes.has_value() || bytes->size() != kNonceBytes) {
    return invalid_argument("{}: must be {} hexadecimal digits, found {} bytes", kNonceMetadata,
                            2 * kNonceBytes, worker_nonce.size());
  }
  std::string nonce(reinterpret_cast<const char*>(&now), sizeof(now));
  nonce += salt;
  nonce += mac(nonce, peer, *bytes);
  cluster::ChallengeReply reply;
  reply.set_proof(coordinator_proof(token_, *bytes, nonce));
  reply.set_nonce(std::move(nonce));
  return reply;
}

absl::Status Challenges::verify(int64_t now, std::string_view peer, const JoinProof& join) {
  const std::optional<std::string> nonce = from_hex(join.nonce);
  const std::optional<std::string> worker_nonce = from_hex(join.worker_nonce);
  const std::optional<std::string> proof = from_hex(join.proof);
  if (!nonce.has_value() || nonce->size() != kNonceBytes || !worker_nonce.has_value() ||
      worker_nonce->size() != kNonceBytes || !proof.has_value()) {
    return absl::PermissionDeniedError(
        "a worker must join with two nonces and a proof, found none: does it have another "
        "version?");
  }
  std::erase_if(used_, [now](const auto& used) { return used.second <= now; });
  const std::string_view stated = std::string_view(*nonce).substr(0, kStatedBytes);
  if (!same_secret(std::string_view(*nonce).substr(kStatedBytes),
                   mac(stated, peer, *worker_nonce))) {
    return unavailable("the nonce is not one that this coordinator sent to {}: request another",
                       peer);
  }
  int64_t begin = 0;
  std::memcpy(&begin, stated.data(), sizeof(begin));
  if (begin + kNonceMs <= now || used_.count(*nonce) > 0) {
    return unavailable("the nonce was used, or is older than {} ms: request another", kNonceMs);
  }
  if (!same_secret(*proof, worker_proof(token_, *nonce, *worker_nonce))) {
    return absl::PermissionDeniedError("the join token is not the coordinator's");
  }
  used_.emplace(*nonce, begin + kNonceMs);
  return absl::OkStatus();
}

}  // namespace lockstep
