// SPDX-License-Identifier: Apache-2.0
#include "base/numbers/crc32c.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <vector>

namespace lockstep {
namespace {

constexpr uint32_t kSeed = 20261122;

std::vector<unsigned char> random_bytes(size_t count) {
  std::minstd_rand random(kSeed);
  std::vector<unsigned char> bytes(count);
  for (unsigned char& byte : bytes) byte = static_cast<unsigned char>(random() >> 8);
  return bytes;
}

TEST(Crc32cTest, ChecksumsAgreeWithRfc3720) {
  const std::string digits = "123456789";
  std::vector<unsigned char> bytes(32);
  for (const auto crc : {crc32c, crc32c_portable}) {
    EXPECT_EQ(crc(digits.data(), digits.size(), 0), 0xe3069283u);
    std::fill(bytes.begin(), bytes.end(), 0);
    EXPECT_EQ(crc(bytes.data(), bytes.size(), 0), 0x8a9136aau);
    std::fill(bytes.begin(), bytes.end(), 0xff);
    EXPECT_EQ(crc(bytes.data(), bytes.size(), 0), 0x62a8ab43u);
    std::iota(bytes.begin(), bytes.end(), 0);
    EXPECT_EQ(crc(bytes.data(), bytes.size(), 0), 0x46dd794eu);
  }
}

TEST(Crc32cTest, AChecksumIsTheSameWithAndWithoutTheInstruction) {
  const std::vector<unsigned char> bytes = random_bytes(20'000);
  for (size_t begin = 0; begin < 9; ++begin) {
    for (const size_t count : {0, 1, 7, 8, 9, 3071, 3072, 3073, 6144, 10'000, 19'990}) {
      const uint32_t before = static_cast<uint32_t>(count * 2'654'435'761u);
      EXPECT_EQ(crc32c(bytes.data() + begin, count, before),
                crc32c_portable(bytes.data() + begin, count, before))
          << count << " bytes from " << begin;
    }
  }
}

TEST(Crc32cTest, AChecksumCanBeComputedInPieces) {
  const std::vector<unsigned char> bytes = random_bytes(10'000);
  const uint32_t whole = crc32c(bytes.data(), bytes.size());
  for (size_t cut = 0; cut <= bytes.size(); cut += 97) {
    const uint32_t first = crc32c(bytes.data(), cut);
    EXPECT_EQ(crc32c(bytes.data() + cut, bytes.size() - cut, first), whole);
  }
}

}  // namespace
}  // namespace lockstep
