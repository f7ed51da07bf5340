// SPDX-License-Identifier: Apache-2.0
// Answers of `lockstep generate --json`, for tests.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/process.h"

namespace lockstep::testing {

// Runs `lockstep generate ARGUMENTS --json`; one JSON value a line of its output.
inline std::vector<nlohmann::json> generate_json(std::vector<std::string> arguments,
                                                 const ProcessOptions& options = {}) {
  arguments.insert(arguments.begin(), "generate");
  arguments.push_back("--json");
  const ProcessResult result = run_lockstep(std::move(arguments), options);
  EXPECT_EQ(result.code, 0) << result.err;
  std::vector<nlohmann::json> lines;
  size_t begin = 0;
  for (size_t end; (end = result.out.find('\n', begin)) != std::string::npos; begin = end + 1) {
    lines.push_back(nlohmann::json::parse(result.out.substr(begin, end - begin)));
  }
  return lines;
}

}  // namespace lockstep::testing
