// SPDX-License-Identifier: Apache-2.0
// What the coordinator makes of nonces and proofs.
#include "coordinator/cluster/challenges.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/status.h"
#include "proto/handshake.h"

namespace lockstep {
namespace {

const std::string kWorkerNonce(kNonceBytes, 'w');

std::string nonce_of(int number) {
  std::string nonce(kNonceBytes, 'c');
  nonce[0] = static_cast<char>(number);
  return nonce;
}

class ChallengesTest : public ::testing::Test {
 protected:
  // The proof of a worker that knows `token`, to a challenge opened now.
  std::string answer(int number, int64_t now, const std::string& token = "sesame") {
    const auto reply = challenges_.open(now, to_hex(kWorkerNonce), nonce_of(number));
    EXPECT_EQ(message_of(reply.status()), "");
    return to_hex(worker_proof(token, reply->nonce(), kWorkerNonce));
  }
  absl::StatusCode verify(int number, int64_t now, const std::string& proof) {
    return challenges_.verify(now, to_hex(nonce_of(number)), proof).code();
  }

  Challenges challenges_{"sesame"};
};

TEST_F(ChallengesTest, BothProveThatTheyKnowTheToken) {
  const auto reply = challenges_.open(0, to_hex(kWorkerNonce), nonce_of(1));
  ASSERT_TRUE(reply.ok());
  EXPECT_EQ(reply->proof(), coordinator_proof("sesame", kWorkerNonce, reply->nonce()));
  const std::string proof = worker_proof("sesame", reply->nonce(), kWorkerNonce);
  EXPECT_EQ(verify(1, 0, to_hex(proof)), absl::StatusCode::kOk);
}

TEST_F(ChallengesTest, AnotherTokenIsRefused) {
  const std::string proof = answer(1, 0, "guess");
  EXPECT_EQ(verify(1, 0, proof), absl::StatusCode::kPermissionDenied);
}

TEST_F(ChallengesTest, ANonceIsValidOnce) {
  const std::string proof = answer(1, 0);
  EXPECT_EQ(verify(1, 0, proof), absl::StatusCode::kOk);
  EXPECT_EQ(verify(1, 0, proof), absl::StatusCode::kUnavailable);
}

TEST_F(ChallengesTest, AWrongProofUsesUpTheNonce) {
  const std::string proof = answer(1, 0);
  EXPECT_EQ(verify(1, 0, to_hex("wrong")), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(verify(1, 0, proof), absl::StatusCode::kUnavailable);
}

TEST_F(ChallengesTest, ANonceIsValidForFiveSeconds) {
  const std::string in_time = answer(1, 0);
  const std::string late = answer(2, 0);
  EXPECT_EQ(verify(1, 4'999, in_time), absl::StatusCode::kOk);
  EXPECT_EQ(verify(2, 5'000, late), absl::StatusCode::kUnavailable);
}

TEST_F(ChallengesTest, AtMost64AreOpenAndTheOldestGoesFirst) {
  std::vector<std::string> proofs;
  for (int i = 0; i < 65; ++i) proofs.push_back(answer(i, 0));
  EXPECT_EQ(verify(0, 0, proofs[0]), absl::StatusCode::kUnavailable);
  for (int i = 1; i < 65; ++i) EXPECT_EQ(verify(i, 0, proofs[i]), absl::StatusCode::kOk);
}

TEST_F(ChallengesTest, WhatIsNoNonceIsRefused) {
  for (const std::string& nonce : {std::string(), std::string("zz"), std::string(63, 'a'),
                                   to_hex(std::string(31, 'a')), std::string(5'000, 'a')}) {
    EXPECT_EQ(challenges_.open(0, nonce, nonce_of(1)).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

TEST_F(ChallengesTest, JoiningWithoutAChallengeIsRefused) {
  EXPECT_EQ(challenges_.verify(0, "", "").code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(challenges_.verify(0, to_hex(nonce_of(1)), "xyz").code(),
            absl::StatusCode::kPermissionDenied);
}

}  // namespace
}  // namespace lockstep
