// SPDX-License-Identifier: Apache-2.0
// The proofs of the handshake, compared with those that Python's hmac module computes; and invalid
// hexadecimal text.
#include "proto/handshake.h"

#include <gtest/gtest.h>

#include <set>

namespace lockstep {
namespace {

std::string bytes_from(char first) {
  std::string bytes;
  for (size_t i = 0; i < kNonceBytes; ++i) bytes += static_cast<char>(first + static_cast<char>(i));
  return bytes;
}

TEST(HandshakeTest, ProofsAgreeWithTheProtocol) {
  const std::string worker = bytes_from(0), coordinator = bytes_from(32);
  EXPECT_EQ(to_hex(coordinator_proof("the token", worker, coordinator)),
            "91e2f288469fce461e779c458f46d0aee73aff2a7222b77e6e92183e6a91324a");
  EXPECT_EQ(to_hex(worker_proof("the token", coordinator, worker)),
            "d465e2ab8734797cc6a0c962ce7b929402476c17b8128f167fea3eb5c2780d55");
  EXPECT_EQ(to_hex(worker_proof("", coordinator, worker)),
            "6f18b2ef447a1d225e60f20876aaeea0d37824e61509bedd2422924262e784c3");
  EXPECT_EQ(to_hex(meeting_secret("the token", "group-1")),
            "db8e8439ebd7a5e003d76780c79cb858dc25a517e8eb5d7397770f74865e0ed8");
}

TEST(HandshakeTest, AShortTokenIsRefused) {
  EXPECT_TRUE(check_join_token("0123456789abcdef").ok());
  EXPECT_EQ(check_join_token("try").message(),
            "LOCKSTEP_JOIN_TOKEN: must have at least 16 characters, found 3; `openssl rand -hex "
            "16` makes one");
}

TEST(HandshakeTest, NoncesNeverRepeat) {
  std::set<std::string> seen;
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(draw_nonce().size(), kNonceBytes);
    EXPECT_TRUE(seen.insert(draw_nonce()).second);
  }
}

TEST(HandshakeTest, HexadecimalTextHasPairsOfLowerCaseDigits) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  EXPECT_EQ(from_hex(to_hex(all)), all);
  EXPECT_EQ(from_hex(""), "");
  for (const char* text : {"0", "0g", "0A", "0x", "é", " 00", "00 "}) {
    EXPECT_EQ(from_hex(text), std::nullopt) << text;
  }
}

TEST(HandshakeTest, OnlyEqualSecretsAreTheSame) {
  EXPECT_TRUE(same_secret("", ""));
  EXPECT_TRUE(same_secret("abc", "abc"));
  for (const char* other : {"", "ab", "abd", "abcd"}) EXPECT_FALSE(same_secret("abc", other));
}

}  // namespace
}  // namespace lockstep
