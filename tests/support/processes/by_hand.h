// SPDX-License-Identifier: Apache-2.0
// Starts a coordinator that waits for workers, and the workers, which all have the same join token.
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

// The address that follows `words` in a process's log, up to a comma or the end of the line.
inline std::string address_after(Process& process, const std::string& words) {
  EXPECT_TRUE(process.wait_for_err(words)) << process.err();
  const std::string err = process.err();
  const size_t at = err.find(words) + words.size();
  return err.substr(at, err.find_first_of(",\n", at) - at);
}

// The address at which a coordinator that was just started waits for its workers.
inline std::string join_address(Process& coordinator) {
  return address_after(coordinator, "awaited at ");
}

inline std::unique_ptr<Process> start_worker(const std::string& coordinator,
                                             const std::vector<std::string>& more = {},
                                             const std::string& token = "sesame, open please") {
  std::vector<std::string> arguments = {lockstep_binary(), "worker",    "--coordinator",
                                        coordinator,       "--threads", "1"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return std::make_unique<Process>(arguments, with_join_token(token));
}

// An address that was in use and is free again: workers may dial it before their coordinator is
// started with serve_by_hand().
inline std::string free_address() { return join_address(*start_coordinator(2)); }

// The arguments of a Server that waits for workers at the address.
inline std::vector<std::string> serve_by_hand(const std::string& address,
                                              const std::vector<std::string>& more = {},
                                              int workers = 2) {
  std::vector<std::string> arguments = {"--cluster", address, "--wait-workers",
                                        std::to_string(workers)};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

inline int lines_with(const std::string& text, const std::string& words) {
  int count = 0;
  for (size_t at = text.find(words); at != std::string::npos; at = text.find(words, at + 1)) {
    ++count;
  }
  return count;
}

}  // namespace lockstep::testing
