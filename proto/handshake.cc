// SPDX-License-Identifier: Apache-2.0
// Each proof is an HMAC over its own label and both nonces, all of fixed length, so that no proof
// can replace another.
#include "proto/handshake.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <unistd.h>

#include <initializer_list>

#include "base/check.h"
#include "base/status.h"

namespace lockstep {
namespace {

std::string hmac_sha256(std::string_view key, std::initializer_list<std::string_view> parts) {
  std::string text;
  for (const std::string_view part : parts) text += part;
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int bytes = 0;
  // HMAC() needs a pointer, even for an empty key.
  const char* data = key.empty() ? "" : key.data();
  LOCKSTEP_CHECK(HMAC(EVP_sha256(), data, static_cast<int>(key.size()),
                      reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest,
                      &bytes) != nullptr);
  return std::string(reinterpret_cast<const char*>(digest), bytes);
}

template <typename Number>
std::string_view bytes_of(const Number& number) {
  return {reinterpret_cast<const char*>(&number), sizeof(number)};
}

std::string data_proof(std::string_view key, std::string_view label, const DataConnection& one) {
  LOCKSTEP_CHECK(one.dialler_nonce.size() == kNonceBytes);
  LOCKSTEP_CHECK(one.listener_nonce.size() == kNonceBytes);
  return hmac_sha256(key, {label, bytes_of(one.epoch), bytes_of(one.dialler),
                           bytes_of(one.listener), one.dialler_nonce, one.listener_nonce});
}

int digit_of(char c) {
  if ('0' <= c && c <= '9') return c - '0';
  return 'a' <= c && c <= 'f' ? c - 'a' + 10 : -1;
}

}  // namespace

std::string draw_nonce() {
  std::string nonce(kNonceBytes, '\0');
  LOCKSTEP_CHECK(getentropy(nonce.data(), nonce.size()) == 0);
  return nonce;
}

absl::Status check_join_token(std::string_view token) {
  if (token.size() >= kMinTokenBytes) return absl::OkStatus();
  return invalid_argument(
      "LOCKSTEP_JOIN_TOKEN: must have at least {} characters, found {}; `openssl rand -hex 16` "
      "makes one",
      kMinTokenBytes, token.size());
}

std::string nonce_mac(std::string_view key, std::string_view stated, std::string_view worker_nonce,
                      std::string_view peer) {
  return hmac_sha256(key, {"lockstep nonce", stated, worker_nonce, peer});
}

std::string coordinator_proof(std::string_view token, std::string_view worker_nonce,
                              std::string_view coordinator_nonce) {
  return hmac_sha256(token, {"lockstep coordinator", worker_nonce, coordinator_nonce});
}

std::string worker_proof(std::string_view token, std::string_view coordinator_nonce,
                         std::string_view worker_nonce) {
  return hmac_sha256(token, {"lockstep worker", coordinator_nonce, worker_nonce});
}

std::string meeting_secret(std::string_view token, std::string_view group) {
  return hmac_sha256(token, {"lockstep meeting", group});
}

std::string dialler_proof(std::string_view key, const DataConnection& connection) {
  return data_proof(key, "lockstep data dialler", connection);
}

std::string listener_proof(std::string_view key, const DataConnection& connection) {
  return data_proof(key, "lockstep data listener", connection);
}

bool same_secret(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::string to_hex(std::string_view bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(2 * bytes.size());
  for (const char byte : bytes) {
    text += kDigits[static_cast<unsigned char>(byte) >> 4];
    text += kDigits[static_cast<unsigned char>(byte) & 15];
  }
  return text;
}

std::optional<std::string> from_hex(std::string_view text) {
  if (text.size() % 2 != 0) return std::nullopt;
  std::string bytes;
  bytes.reserve(text.size() / 2);
  for (size_t i = 0; i < text.size(); i += 2) {
    const int high = digit_of(text[i]), low = digit_of(text[i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    bytes += static_cast<char>(high << 4 | low);
  }
  return bytes;
}

}  // namespace lockstep
