// SPDX-License-Identifier: Apache-2.0
// How coordinator and worker prove to each other that they know the join token, which itself never
// travels: the bytes and names that cluster.proto describes, for both sides.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace lockstep {

// Of cluster.proto. Raised when an older worker or coordinator could not take part.
inline constexpr uint32_t kProtocolVersion = 8;

// Metadata of the calls; values are lower-case hexadecimal digits.
inline constexpr char kNonceMetadata[] = "lockstep-nonce";
inline constexpr char kWorkerNonceMetadata[] = "lockstep-worker-nonce";
inline constexpr char kProofMetadata[] = "lockstep-proof";
inline constexpr size_t kNonceBytes = 32;

// A stranger who asks for one challenge may try guesses of the token offline: it is no word.
inline constexpr size_t kMinTokenBytes = 16;
// kInvalidArgument: the token is shorter than that.
absl::Status check_join_token(std::string_view token);

// Nobody can guess it, and none comes twice.
std::string draw_nonce();

// A coordinator knows its own nonces by it: `stated` is the rest of the nonce, `peer` the address
// to which it went.
std::string nonce_mac(std::string_view key, std::string_view stated, std::string_view worker_nonce,
                      std::string_view peer);

// Sent by the coordinator, in answer to a worker's nonce.
std::string coordinator_proof(std::string_view token, std::string_view worker_nonce,
                              std::string_view coordinator_nonce);
// Sent by the worker, in answer to a coordinator's nonce.
std::string worker_proof(std::string_view token, std::string_view coordinator_nonce,
                         std::string_view worker_nonce);
// By which the ranks of one host know each other when they meet in `group`.
std::string meeting_secret(std::string_view token, std::string_view group);

// By which the two ends of a data connection between hosts prove that they know the epoch's key. Of
// each connection there are two: the dialling rank's, and the listening one's.
struct DataConnection {
  uint64_t epoch = 0;
  int32_t dialler = 0;  // Ranks.
  int32_t listener = 0;
  std::string_view dialler_nonce;  // Of kNonceBytes each.
  std::string_view listener_nonce;
};
std::string dialler_proof(std::string_view key, const DataConnection& connection);
std::string listener_proof(std::string_view key, const DataConnection& connection);

// Takes equally long wherever they differ.
bool same_secret(std::string_view a, std::string_view b);

std::string to_hex(std::string_view bytes);
// Nothing where `text` is not pairs of lower-case hexadecimal digits.
std::optional<std::string> from_hex(std::string_view text);

}  // namespace lockstep
