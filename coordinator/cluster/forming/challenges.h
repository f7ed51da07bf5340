// SPDX-License-Identifier: Apache-2.0
// The coordinator's side of the handshake in cluster.proto. A nonce is its own proof: it carries
// its time and a MAC, so any number can be open and none is stored.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "proto/cluster.pb.h"

namespace lockstep {

inline constexpr int64_t kNonceMs = 5'000;  // From the challenge to Join.

// The metadata of a Join call, as hexadecimal digits.
struct JoinProof {
  std::string_view nonce;         // The coordinator's.
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
  // it is not a nonce.
  absl::StatusOr<cluster::ChallengeReply> open(int64_t now, std::string_view peer,
                                               std::string_view worker_nonce,
                                               std::string_view salt) const;
  // A nonce with a correct proof is used up. kUnavailable: the nonce is used, too old, another
  // address's or another process's, so another challenge helps. kPermissionDenied: another token.
  absl::Status verify(int64_t now, std::string_view peer, const JoinProof& join);

  static constexpr size_t kSaltBytes = 8;

 private:
  // The MAC of a nonce's first part.
  std::string mac(std::string_view stated, std::string_view peer,
                  std::string_view worker_nonce) const;

  const std::string token_;
  const std::string key_;
  // By nonce: its end. Only callers who know the token add to it.
  std::map<std::string, int64_t> used_;
};

}  // namespace lockstep
