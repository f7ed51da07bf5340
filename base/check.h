// SPDX-License-Identifier: Apache-2.0
// For our own bugs: stops the process, in release builds too, in which NDEBUG disables assert. A
// wrong token is worse than a restart. Errors of the world (files, peers, requests, memory) are
// absl::Status.
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
