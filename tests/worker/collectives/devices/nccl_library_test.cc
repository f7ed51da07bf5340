// SPDX-License-Identifier: Apache-2.0
#include "worker/collectives/devices/nccl_library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/status.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;

TEST(NcclLibraryTest, EveryFunctionIsFoundAndTheVersionIsRead) {
  const auto nccl = load_nccl(LOCKSTEP_FAKE_NCCL);
  ASSERT_EQ(message_of(nccl.status()), "");
  EXPECT_EQ(nccl_version_text(nccl->version), "2.28.9");
}

TEST(NcclLibraryTest, TheRealLibraryHasAllFunctionsThatAreUsed) {
  const auto nccl = load_nccl("");
  if (!nccl.ok() && !absl::IsFailedPrecondition(nccl.status()))
    GTEST_SKIP() << message_of(nccl.status());
  EXPECT_EQ(message_of(nccl.status()), "");
}

TEST(NcclLibraryTest, AMissingLibraryIsAnErrorOfOneLine) {
  const auto nccl = load_nccl("libnosuchnccl.so.2");
  EXPECT_EQ(nccl.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(message_of(nccl.status()), HasSubstr("libnosuchnccl.so.2"));
  EXPECT_EQ(message_of(nccl.status()).find('\n'), std::string::npos);
  EXPECT_EQ(load_nccl("off").status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(message_of(load_nccl("off").status()), "switched off by LOCKSTEP_NCCL");
}

TEST(NcclLibraryTest, AnotherLibraryIsRefused) {
  EXPECT_THAT(message_of(load_nccl("libc.so.6").status()), HasSubstr("must be NCCL 2.18.0"));
}

}  // namespace
}  // namespace lockstep
