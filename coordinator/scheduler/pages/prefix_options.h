// SPDX-License-Identifier: Apache-2.0
// How KV pages of tokens that may come again are kept, and how often they served.
#pragma once

#include <cstdint>

namespace lockstep {

struct PrefixOptions {
  bool enabled = true;
  bool shared = false;  // By all clients. Else each has its own, as timing shows what is cached.
};

struct PrefixCounts {
  int64_t queries = 0;  // Tokens of sequences that started for the first time.
  int64_t hits = 0;     // Of these, tokens that were cached.

  PrefixCounts& operator+=(const PrefixCounts& other) {
    queries += other.queries;
    hits += other.hits;
    return *this;
  }
};

}  // namespace lockstep
