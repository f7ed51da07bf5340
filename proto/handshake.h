// SPDX-License-Identifier: Apache-2.0
// The proofs by which coordinator and worker show that they know the join token, which is never
// sent. cluster.proto describes their bytes and names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace lockstep {

// cluster.proto's version. Raised when an older worker or coordinator cannot take part.
inline constexpr uint32_t kProtocolVersion = 9;

// Metadata of the calls; values are lower-case hexadecimal digits.
inline constexpr char kNonceMetadata[] = "lockstep-nonce";
inline constexpr char kWorkerNonceMetadata[] = "lockstep-worker-nonce";
inline constexpr char kProofMetadata[] = "lockstep-proof";
inline constexpr size_t kNonceBytes = 32;

// An attacker who gets one challenge can test guesses offline, so a token must not be a word.
inline constexpr size_t kMinTokenBytes = 16;
// kInvalidArgument: the token is shorter than kMinTokenBytes.
absl::Status check_join_token(std::string_view token);

// Returns kNonceBytes random bytes: unpredictable and unique.
std::string draw_nonce();

// The MAC by which a coordinator recognizes its own nonces. `stated` is the nonce without its MAC,
// `peer` the address to which the nonce was sent.
std::string nonce_mac(std::string_view key, std::string_view stated, std::string_view worker_nonce,
                      std::string_view peer);

// Sent by the coordinator, in answer to a worker's nonce.
std::string coordinator_proof(std::string_view token, std::string_view worker_nonce,
                              std::string_view coordinator_nonce);
// Sent by the worker, in answer to a coordinator's nonce.
std::string worker_proof(std::string_view token, std::string_view coordinator_nonce,
                         std::string_view worker_nonce);
// The secret by which the ranks of one host recognize each other when they meet in `group`.
std::string meeting_secret(std::string_view token, std::string_view group);

// The proofs by which both ends of a data connection between hosts show that they know the epoch's
// key: one from the dialling rank, one from the listening rank.
struct DataConnection {
  uint64_t epoch = 0;
  int32_t dialler = 0;  // Ranks.
  int32_t listener = 0;
  std::string_view dialler_nonce;  // kNonceBytes each.
  std::string_view listener_nonce;
};
std::string dialler_proof(std::string_view key, const DataConnection& connection);
std::string listener_proof(std::string_view key, const DataConnection& connection);

// Compares in constant time.
bool same_secret(std::string_view a, std::string_view b);

std::string to_hex(std::string_view bytes);
// nullopt if `text` is not pairs of lower-case hexadecimal digits.
std::optional<std::string> from_hex(std::string_view text);

}  // namespace lockstep
