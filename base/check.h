// SPDX-License-Identifier: Apache-2.0
// Our own bugs stop here, in release builds too: NDEBUG turns assert off, and a wrong token is
// worse than a restart. The world's errors (files, peers, requests, memory) are absl::Status
// instead.
#pragma once

#include <cstdio>
#include <cstdlib>

#define LOCKSTEP_CHECK(condition)                                                        \
  do {                                                                                   \
    if (!(condition)) [[unlikely]] {                                                     \
      std::fprintf(stderr, "%s:%d: check failed: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                      \
    }                                                                                    \
  } while (false)
