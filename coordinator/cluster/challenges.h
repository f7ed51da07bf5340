// SPDX-License-Identifier: Apache-2.0
// The coordinator's side of the handshake that cluster.proto describes: nonces that were given out,
// and whether a worker's proof answers one of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "proto/cluster.pb.h"

namespace lockstep {

inline constexpr int64_t kNonceMs = 5'000;  // From the challenge to Join.
inline constexpr size_t kOpenNonces = 64;   // One more closes the oldest.

// One thread at a time; `now` in milliseconds of a steady clock.
class Challenges {
 public:
  explicit Challenges(std::string token) : token_(std::move(token)) {}

  // `nonce` as in the call's metadata; `fresh` are kNonceBytes that nobody can guess.
  // kInvalidArgument: it is no nonce.
  absl::StatusOr<cluster::ChallengeReply> open(int64_t now, std::string_view nonce,
                                               std::string fresh);
  // `nonce` and `proof` as in the metadata of Join; the nonce is used up. kUnavailable: the nonce
  // is not open any more, so another challenge helps. kPermissionDenied: another token.
  absl::Status verify(int64_t now, std::string_view nonce, std::string_view proof);

 private:
  struct Open {
    std::string nonce;
    std::string worker_nonce;
    int64_t until = 0;
  };
  void forget_old(int64_t now);

  const std::string token_;
  std::deque<Open> open_;  // The oldest first.
};

}  // namespace lockstep
