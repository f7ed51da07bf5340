// SPDX-License-Identifier: Apache-2.0
// The coordinator's side of the handshake in cluster.proto. A nonce contains its time and a MAC, so
// the coordinator stores only used nonces, however many are requested.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "proto/cluster.pb.h"

namespace lockstep {

inline constexpr int64_t kNonceMs = 5'000;  // The max time from the challenge to Join.

// The metadata of a Join call, as hexadecimal digits.
struct JoinProof {
  std::string_view nonce;         // The nonce that the coordinator gave.
  std::string_view worker_nonce;  // The nonce of the worker's Challenge.
  std::string_view proof;
};

// One thread at a time. `now` is in milliseconds of a steady clock; `peer` is the caller's address
// without its port: a nonce is valid only for the address that requested it.
class Challenges {
 public:
  // `key` is kNonceBytes of draw_nonce(), unique to this process.
  Challenges(std::string token, std::string key);

  // `worker_nonce` is the call's metadata; `salt` is kSaltBytes, unique per call. kInvalidArgument:
  // `worker_nonce` is not a nonce.
  absl::StatusOr<cluster::ChallengeReply> open(int64_t now, std::string_view peer,
                                               std::string_view worker_nonce,
                                               std::string_view salt) const;
  // Verifies a Join call. A nonce is valid once. kUnavailable: it was used, is too old, or was made
  // for another address or by another process; a new challenge helps. kPermissionDenied: another
  // token, or no proof.
  absl::Status verify(int64_t now, std::string_view peer, const JoinProof& join);

  static constexpr size_t kSaltBytes = 8;

 private:
  // The MAC in a nonce; `stated` is the nonce's time and salt.
  std::string mac(std::string_view stated, std::string_view peer,
                  std::string_view worker_nonce) const;

  const std::string token_;
  const std::string key_;
  // The time at which each used nonce becomes too old, by nonce. Only callers that know the token
  // add one.
  std::map<std::string, int64_t> used_;
};

}  // namespace lockstep
