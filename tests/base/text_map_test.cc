// SPDX-License-Identifier: Apache-2.0
// A hash for texts that clients choose.
#include "base/text_map.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace lockstep {
namespace {

// The hashes are those of CPython 3.11, whose key is 0 with this variable:
//   PYTHONHASHSEED=0 python3.11 -c 'print(hex(hash(b"a") & (2**64 - 1)))'
TEST(SipHashTest, HashesAreThoseOfAnotherImplementation) {
  EXPECT_EQ(sip_hash({}, "a"), 0x407448d2b89b1813u);
  EXPECT_EQ(sip_hash({}, "abcdefg"), 0x6db12aae9070f506u);
  EXPECT_EQ(sip_hash({}, "abcdefgh"), 0x3f7b849c0b8e35eau);
  EXPECT_EQ(sip_hash({}, "the same bits, always"), 0x42483a87daee8db8u);
}

TEST(SipHashTest, EachBitOfTheKeyAndOfTheTextChangesTheHash) {
  std::set<uint64_t> hashes;
  for (int bit = 0; bit < 64; ++bit) {
    hashes.insert(sip_hash({.first = uint64_t{1} << bit}, "text"));
    hashes.insert(sip_hash({.second = uint64_t{1} << bit}, "text"));
  }
  for (int bit = 0; bit < 8 * 19; ++bit) {
    std::string text(19, 'x');
    text[bit / 8] = static_cast<char>(text[bit / 8] ^ (1 << bit % 8));
    hashes.insert(sip_hash({}, text));
  }
  EXPECT_EQ(hashes.size(), 64u + 64u + 8u * 19u);
}

TEST(TextMapTest, TextsOfEveryTypeAreFoundAndAddressesStay) {
  TextNodeMap<std::string, int> table;
  int* const first = &table["first"];
  for (int i = 0; i < 1000; ++i) table[std::to_string(i)] = i;
  EXPECT_EQ(&table.find(std::string_view("first"))->second, first);
  EXPECT_EQ(table.find("999")->second, 999);
  const TextSet<std::string_view> set = {"a", ""};
  EXPECT_TRUE(set.contains(std::string("")));
  EXPECT_TRUE(set.contains(std::string_view()));
  EXPECT_FALSE(set.contains("b"));
}

}  // namespace
}  // namespace lockstep
