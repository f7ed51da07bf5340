// SPDX-License-Identifier: Apache-2.0
// LOCKSTEP_CHECK is for our own bugs. It stops the process, also in release builds, where NDEBUG
// disables assert: a wrong token is worse than a restart. Errors from outside (files, peers,
// requests, memory) are absl::Status.
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
