// SPDX-License-Identifier: Apache-2.0
#include "base/text_map.h"

#include <unistd.h>

#include <bit>
#include <cstring>

#include "base/check.h"

namespace lockstep {
namespace {

SipKey random_key() {
  SipKey key;
  LOCKSTEP_CHECK(getentropy(&key, sizeof(key)) == 0);
  return key;
}

// The up to eight bytes as a number, the first byte lowest.
uint64_t number_of(std::string_view bytes) {
  uint64_t number = 0;
  if (!bytes.empty()) std::memcpy(&number, bytes.data(), bytes.size());  // Empty: may be null.
  return number;
}

}  // namespace

uint64_t sip_hash(const SipKey& key, std::string_view text) {
  uint64_t a = key.first ^ 0x736f6d6570736575, b = key.second ^ 0x646f72616e646f6d;
  uint64_t c = key.first ^ 0x6c7967656e657261, d = key.second ^ 0x7465646279746573;
  const auto round = [&] {
    a += b;
    c += d;
    b = std::rotl(b, 13) ^ a;
    d = std::rotl(d, 16) ^ c;
    a = std::rotl(a, 32);
    c += b;
    a += d;
    b = std::rotl(b, 17) ^ c;
    d = std::rotl(d, 21) ^ a;
    c = std::rotl(c, 32);
  };
  const auto add = [&](uint64_t number) {
    d ^= number;
    round();
    a ^= number;
  };
  const uint64_t length = uint64_t{text.size()} << 56;
  for (; text.size() >= 8; text.remove_prefix(8)) add(number_of(text.substr(0, 8)));
  add(number_of(text) | length);
  c ^= 0xff;
  for (int i = 0; i < 3; ++i) round();
  return a ^ b ^ c ^ d;
}

size_t TextHash::operator()(std::string_view text) const {
  static const SipKey key = random_key();
  return sip_hash(key, text);
}

}  // namespace lockstep
