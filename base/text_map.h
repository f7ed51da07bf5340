// SPDX-License-Identifier: Apache-2.0
// Hash tables whose keys are texts. The hash is SipHash-1-3 (Aumasson and Bernstein, "SipHash: a
// fast short-input PRF", 2012) with a random key of this process, so that a client cannot choose
// texts that collide. The hashes of the standard library and of absl have texts that collide under
// every seed. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/container/node_hash_map.h"

namespace lockstep {

struct SipKey {
  uint64_t first = 0;
  uint64_t second = 0;
};
uint64_t sip_hash(const SipKey& key, std::string_view text);

// Hashes with the key of this process.
struct TextHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const;
};

// `Key` is std::string or std::string_view.
template <typename Key, typename Value>
using TextMap = absl::flat_hash_map<Key, Value, TextHash, std::equal_to<>>;
template <typename Key>
using TextSet = absl::flat_hash_set<Key, TextHash, std::equal_to<>>;
// Keys and values keep their addresses.
template <typename Key, typename Value>
using TextNodeMap = absl::node_hash_map<Key, Value, TextHash, std::equal_to<>>;

}  // namespace lockstep
