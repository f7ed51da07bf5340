// SPDX-License-Identifier: Apache-2.0
// A page of docs/ that a test writes from the program's tables.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "base/source_dir.h"

namespace lockstep {

// Expects the page to be `wanted`, else prints the first line that differs. If LOCKSTEP_REWRITE is
// set, writes `wanted` to the page before it compares.
inline void expect_page(const std::string& name, const std::string& wanted) {
  const std::string path = std::string(LOCKSTEP_SOURCE_DIR) + "/docs/" + name;
  if (std::getenv("LOCKSTEP_REWRITE") != nullptr) std::ofstream(path) << wanted;
  std::ifstream page(path);
  std::istringstream lines(wanted);
  for (int number = 1;; ++number) {
    std::string found, line;
    const bool more = static_cast<bool>(std::getline(page, found));
    if (static_cast<bool>(std::getline(lines, line)) != more || found != line) {
      ADD_FAILURE() << "docs/" << name << ":" << number << ": must be \"" << line << "\", found \""
                    << found << "\"; run this test with LOCKSTEP_REWRITE=1";
      return;
    }
    if (!more) return;
  }
}

}  // namespace lockstep
