// SPDX-License-Identifier: Apache-2.0
// Reads the output of commands with --json, for tests.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/processes/process.h"

namespace lockstep::testing {

// Parses one JSON value per line.
inline std::vector<nlohmann::json> json_lines(const std::string& text) {
  std::vector<nlohmann::json> lines;
  size_t begin = 0;
  for (size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    lines.push_back(nlohmann::json::parse(text.substr(begin, end - begin)));
  }
  return lines;
}

// Runs `lockstep generate ARGUMENTS --json`; returns one JSON value per line of its output.
inline std::vector<nlohmann::json> generate_json(std::vector<std::string> arguments,
                                                 const ProcessOptions& options = {}) {
  arguments.insert(arguments.begin(), "generate");
  arguments.push_back("--json");
  const ProcessResult result = run_lockstep(std::move(arguments), options);
  EXPECT_EQ(result.code, 0) << result.err;
  return json_lines(result.out);
}

}  // namespace lockstep::testing
