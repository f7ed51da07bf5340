// SPDX-License-Identifier: Apache-2.0
#include "base/system/out_of_memory.h"

#include <gtest/gtest.h>

#include <system_error>

#include "base/status.h"

namespace lockstep {
namespace {

[[noreturn]] void run_out() { throw std::bad_alloc(); }
[[noreturn]] void fail_to_start_a_thread() {
  throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
}
[[noreturn]] void fail() { throw 1; }

// Ends the process: no caller can catch the exception that `how` throws.
void end_by(void (*how)()) noexcept { how(); }

TEST(OutOfMemoryTest, ARequestThatRunsOutOfMemoryIsRefused) {
  const absl::Status status = within_memory([]() -> absl::Status { throw std::bad_alloc(); });
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(message_of(status).find("no memory"), std::string::npos) << status;
  EXPECT_TRUE(within_memory([] { return absl::OkStatus(); }).ok());
  EXPECT_EQ(within_memory([] { return absl::NotFoundError("x"); }).code(),
            absl::StatusCode::kNotFound);
}

TEST(OutOfMemoryDeathTest, AProcessThatRunsOutOfMemoryEndsWithOneLine) {
  explain_ends_of_memory();
  EXPECT_EXIT(end_by(run_out), testing::ExitedWithCode(2), "^lockstep: out of memory: [^\n]*\n$");
  EXPECT_EXIT(end_by(fail_to_start_a_thread), testing::ExitedWithCode(2),
              "^lockstep: a thread cannot be started: [^\n]*\n$");
  EXPECT_DEATH(end_by(fail), "") << "our own bug still aborts";
}

}  // namespace
}  // namespace lockstep
