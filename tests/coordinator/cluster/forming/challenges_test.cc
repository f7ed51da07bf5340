// SPDX-License-Identifier: Apache-2.0
// How the coordinator verifies nonces and proofs.
#include "coordinator/cluster/forming/challenges.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "base/status.h"
#include "proto/handshake.h"

namespace lockstep {
namespace {

const std::string kWorkerNonce(kNonceBytes, 'w');
constexpr char kHere[] = "ipv4:10.0.0.1";

std::string salt_of(int number) {
  std::string salt(Challenges::kSaltBytes, 's');
  std::memcpy(salt.data(), &number, sizeof(number));
  return salt;
}

// A worker's answer to a challenge, with which it joins.
struct Answer {
  std::string nonce;
  std::string worker_nonce = to_hex(kWorkerNonce);
  std::string proof;
};

class ChallengesTest : public ::testing::Test {
 protected:
  // The answer of a worker that knows `token`, to a challenge opened at `now`.
  Answer answer(int number, int64_t now, const std::string& token = "sesame") {
    const auto reply = challenges_.open(now, kHere, to_hex(kWorkerNonce), salt_of(number));
    EXPECT_EQ(message_of(reply.status()), "");
    return {.nonce = to_hex(reply->nonce()),
            .proof = to_hex(worker_proof(token, reply->nonce(), kWorkerNonce))};
  }
  absl::StatusCode verify(int64_t now, const Answer& answer, const char* peer = kHere) {
    return challenges_
        .verify(now, peer,
                {.nonce = answer.nonce, .worker_nonce = answer.worker_nonce, .proof = answer.proof})
        .code();
  }

  Challenges challenges_{"sesame", std::string(kNonceBytes, 'k')};
};

TEST_F(ChallengesTest, CoordinatorAndWorkerProveThatTheyKnowTheToken) {
  const auto reply = challenges_.open(0, kHere, to_hex(kWorkerNonce), salt_of(1));
  ASSERT_TRUE(reply.ok());
  EXPECT_EQ(reply->nonce().size(), kNonceBytes);
  EXPECT_EQ(reply->proof(), coordinator_proof("sesame", kWorkerNonce, reply->nonce()));
  EXPECT_EQ(verify(0, answer(2, 0)), absl::StatusCode::kOk);
}

TEST_F(ChallengesTest, AnotherTokenIsRefused) {
  EXPECT_EQ(verify(0, answer(1, 0, "guess")), absl::StatusCode::kPermissionDenied);
}

TEST_F(ChallengesTest, ANonceIsValidOnce) {
  const Answer first = answer(1, 0);
  EXPECT_EQ(verify(0, first), absl::StatusCode::kOk);
  EXPECT_EQ(verify(4'999, first), absl::StatusCode::kUnavailable);
}

TEST_F(ChallengesTest, AWrongProofLeavesTheChallengeUsable) {
  const Answer right = answer(1, 0);
  Answer wrong = right;
  wrong.proof = to_hex("wrong");
  EXPECT_EQ(verify(0, wrong), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(verify(0, right), absl::StatusCode::kOk);
}

TEST_F(ChallengesTest, ANonceIsValidForFiveSeconds) {
  const Answer in_time = answer(1, 1'000), late = answer(2, 1'000);
  EXPECT_EQ(verify(5'999, in_time), absl::StatusCode::kOk);
  EXPECT_EQ(verify(6'000, late), absl::StatusCode::kUnavailable);
}

// In an earlier version, a flood of challenges made the challenges of workers invalid.
TEST_F(ChallengesTest, AFloodOfChallengesLeavesEarlierOnesValid) {
  const Answer first = answer(0, 0);
  for (int i = 1; i < 20'000; ++i) answer(i, i / 10);
  EXPECT_EQ(verify(4'999, first), absl::StatusCode::kOk);
}

TEST_F(ChallengesTest, ANonceIsValidOnlyForTheAddressAndTheWorkerThatAskedForIt) {
  const Answer first = answer(1, 0);
  EXPECT_EQ(verify(0, first, "ipv4:10.0.0.2"), absl::StatusCode::kUnavailable);
  const std::string other(kNonceBytes, 'x');
  const std::string nonce = from_hex(first.nonce).value();
  EXPECT_EQ(verify(0, {.nonce = first.nonce,
                       .worker_nonce = to_hex(other),
                       .proof = to_hex(worker_proof("sesame", nonce, other))}),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(verify(0, first), absl::StatusCode::kOk);
}

TEST_F(ChallengesTest, AForgedNonceIsRefused) {
  std::string nonce = from_hex(answer(1, 0).nonce).value();
  for (size_t i = 0; i < nonce.size(); ++i) {
    nonce[i] = static_cast<char>(nonce[i] ^ 1);
    EXPECT_EQ(verify(0, {.nonce = to_hex(nonce),
                         .proof = to_hex(worker_proof("sesame", nonce, kWorkerNonce))}),
              absl::StatusCode::kUnavailable)
        << "byte " << i;
    nonce[i] = static_cast<char>(nonce[i] ^ 1);
  }
  Challenges restarted("sesame", std::string(kNonceBytes, 'r'));
  const Answer old = answer(2, 0);
  EXPECT_EQ(restarted
                .verify(0, kHere,
                        {.nonce = old.nonce, .worker_nonce = old.worker_nonce, .proof = old.proof})
                .code(),
            absl::StatusCode::kUnavailable);
}

TEST_F(ChallengesTest, AMalformedNonceIsRefused) {
  for (const std::string& nonce : {std::string(), std::string("zz"), std::string(63, 'a'),
                                   to_hex(std::string(31, 'a')), std::string(5'000, 'a')}) {
    EXPECT_EQ(challenges_.open(0, kHere, nonce, salt_of(1)).status().code(),
              absl::StatusCode::kInvalidArgument);
    Answer strange = answer(1, 0);
    strange.nonce = nonce;
    EXPECT_EQ(verify(0, strange), absl::StatusCode::kPermissionDenied);
    strange = answer(1, 0);
    strange.worker_nonce = nonce;
    EXPECT_EQ(verify(0, strange), absl::StatusCode::kPermissionDenied);
  }
}

TEST_F(ChallengesTest, JoiningWithoutAProofIsRefused) {
  Answer silent = answer(1, 0);
  silent.proof = "";
  EXPECT_EQ(verify(0, silent), absl::StatusCode::kPermissionDenied);
  silent.proof = "xyz";
  EXPECT_EQ(verify(0, silent), absl::StatusCode::kPermissionDenied);
}

}  // namespace
}  // namespace lockstep
