// SPDX-License-Identifier: Apache-2.0
// Options and counts for the reuse of KV pages.
#pragma once

#include <cstdint>

namespace lockstep {

struct PrefixOptions {
  bool enabled = true;
  bool shared = false;  // Clients share pages. Timing then shows a client what is cached.
};

struct PrefixCounts {
  int64_t queries = 0;  // Tokens of sequences that started for the first time.
  int64_t hits = 0;     // Included in queries: cached tokens.

  PrefixCounts& operator+=(const PrefixCounts& other) {
    queries += other.queries;
    hits += other.hits;
    return *this;
  }
};

}  // namespace lockstep
