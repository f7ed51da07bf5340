// SPDX-License-Identifier: Apache-2.0
// Reference data that is not in the repository: goldens, published models and tokenizers. It is in
// $LOCKSTEP_TEST_DATA or, if that is not set, in shared/ next to the repository. If the data is not
// in shared/ either, tests that need it are skipped.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "base/source_dir.h"

namespace lockstep {

// Setting the variable promises that the data is there: a missing file is then a failure.
inline bool test_data_is_promised() { return std::getenv("LOCKSTEP_TEST_DATA") != nullptr; }

// A file or folder of the data, which may be missing; "tests/..." is in the repository.
inline std::filesystem::path test_data(const std::filesystem::path& name) {
  if (*name.begin() == "tests") return std::filesystem::path(LOCKSTEP_SOURCE_DIR) / name;
  const std::filesystem::path root =
      test_data_is_promised() ? std::filesystem::path(std::getenv("LOCKSTEP_TEST_DATA"))
                              : std::filesystem::path(LOCKSTEP_SOURCE_DIR).parent_path() / "shared";
  return root / name;
}

}  // namespace lockstep

// The first line of a test that reads test_data(name): skips it if that is missing, or fails it if
// LOCKSTEP_TEST_DATA promised it.
#define LOCKSTEP_NEEDS_TEST_DATA(name)                                                         \
  do {                                                                                         \
    const std::filesystem::path needed = ::lockstep::test_data(name);                          \
    if (std::filesystem::exists(needed)) break;                                                \
    if (::lockstep::test_data_is_promised()) {                                                 \
      FAIL() << needed << " is missing, and LOCKSTEP_TEST_DATA names the folder that has it";  \
    }                                                                                          \
    GTEST_SKIP() << needed << " is missing: set LOCKSTEP_TEST_DATA to the folder that has it"; \
  } while (false)
