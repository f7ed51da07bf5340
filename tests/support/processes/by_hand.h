// SPDX-License-Identifier: Apache-2.0
// A coordinator that waits for workers, and workers that a test starts itself, with one join token.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/support/processes/process.h"

namespace lockstep::testing {

inline ProcessOptions with_join_token(const std::string& token = "sesame, open please") {
  return {.input = "", .environment = {{"LOCKSTEP_JOIN_TOKEN", token}}};
}

// Starts `serve` without HTTP, on free ports.
inline std::unique_ptr<Process> start_coordinator(int workers,
                                                  const std::vector<std::string>& more = {}) {
  std::vector<std::string> arguments = {
      lockstep_binary(), "serve",       "--grpc",         "127.0.0.1:0",          "--http", "off",
      "--cluster",       "127.0.0.1:0", "--wait-workers", std::to_string(workers)};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return std::make_unique<Process>(arguments, with_join_token());
}

// The address at which a coordinator that was just started waits for its workers.
inline std::string join_address(Process& coordinator) {
  const std::string words = "awaited at ";
  EXPECT_TRUE(coordinator.wait_for_err(words)) << coordinator.err();
  const std::string err = coordinator.err();
  const size_t at = err.find(words) + words.size();
  return err.substr(at, err.find(',', at) - at);
}

inline std::unique_ptr<Process> start_worker(const std::string& coordinator,
                                             const std::vector<std::string>& more = {},
                                             const std::string& token = "sesame, open please") {
  std::vector<std::string> arguments = {lockstep_binary(), "worker",    "--coordinator",
                                        coordinator,       "--threads", "1"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return std::make_unique<Process>(arguments, with_join_token(token));
}

}  // namespace lockstep::testing
