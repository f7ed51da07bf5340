// SPDX-License-Identifier: Apache-2.0
// The file of API keys, and the requests that these keys admit.
#include "coordinator/api/api_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/status.h"
#include "tests/support/files/temp_folder.h"

namespace lockstep {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kKey = "sk-0123456789abcdef";

class ApiKeysTest : public testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<ApiKeys>> load(const std::string& text) {
    const std::string path = folder_.path() / "keys";
    std::ofstream(path) << text;
    return ApiKeys::load(path);
  }
  TempFolder folder_;
};

TEST_F(ApiKeysTest, ARequestWithAKeyIsAdmittedUnderTheKeysName) {
  const auto keys = load(std::string("# team\n\nalice ") + kKey + "\n");
  ASSERT_TRUE(keys.ok()) << keys.status();
  for (const char* scheme : {"Bearer ", "bearer ", "BEARER "}) {
    const auto permit = (*keys)->admit(std::string(scheme) + kKey);
    ASSERT_TRUE(permit.ok()) << permit.status();
    EXPECT_EQ((*permit)->name(), "alice");
  }
}

TEST_F(ApiKeysTest, NamesAndKeysMustBePlainLetters) {
  const char* wrong[][2] = {
      {R"({"alice": "sk-0123456789abcdef"})", "line 1: NAME must have only letters"},
      {"alice \"sk-0123456789abcdef\"", "KEY must have only letters"},
      {"alice sk-0123456789abcdef\nbob sk-0123456789abcdef",
       "line 2: KEY must be unique, found that of bob"}};
  for (const auto& [text, says] : wrong) {
    const auto keys = load(text);
    ASSERT_FALSE(keys.ok()) << text;
    EXPECT_THAT(message_of(keys.status()), HasSubstr(says));
    EXPECT_THAT(message_of(keys.status()), Not(HasSubstr(kKey)));
  }
}

TEST_F(ApiKeysTest, AHeaderWithoutAValidKeyIsRefused) {
  const auto keys = load(std::string("alice ") + kKey);
  ASSERT_TRUE(keys.ok()) << keys.status();
  for (const std::string& wrong :
       {std::string(), std::string(kKey), std::string("Bearer "),
        std::string("Bearer ") + kKey + "x", std::string("Bearer") + kKey,
        std::string("Basic ") + kKey, std::string(1 << 20, 'x')}) {
    EXPECT_EQ((*keys)->admit(wrong).status().code(), absl::StatusCode::kUnauthenticated);
  }
}

TEST_F(ApiKeysTest, AKeyMayBeGivenByItsDigest) {
  // The digest is SHA-256 of "sk-0123456789abcdef".
  const auto keys = load(
      "alice sha256:0000000000000000000000000000000000000000000000000000000000000000\n"
      "bob sha256:221df437bc4f8c4d9718bd7a9ec4c1021c72fd69dfb2a5f568ecf4607c824bee\n");
  ASSERT_TRUE(keys.ok()) << keys.status();
  const auto permit = (*keys)->admit(std::string("Bearer ") + kKey);
  ASSERT_TRUE(permit.ok()) << permit.status();
  EXPECT_EQ((*permit)->name(), "bob");
}

TEST_F(ApiKeysTest, AKeyMayUseAPriorityBelowZeroOnlyIfItsLineAllowsIt) {
  const auto keys = load(std::string("alice ") + kKey + "\nbob bob-123456789abcdef priority=-5");
  ASSERT_TRUE(keys.ok()) << keys.status();
  const auto alice = (*keys)->admit(std::string("Bearer ") + kKey);
  const auto bob = (*keys)->admit("Bearer bob-123456789abcdef");
  ASSERT_TRUE(alice.ok() && bob.ok());
  EXPECT_TRUE((*alice)->check_priority(0).ok());
  EXPECT_TRUE((*alice)->check_priority(7).ok());
  EXPECT_THAT(
      message_of((*alice)->check_priority(-1)),
      HasSubstr("priority: requests with the API key of alice must have 0 or more, found -1"));
  EXPECT_TRUE((*bob)->check_priority(-5).ok());
  EXPECT_FALSE((*bob)->check_priority(-6).ok());
}

TEST_F(ApiKeysTest, AKeyHasALimitOfRunningRequests) {
  const auto keys = load(std::string("alice ") + kKey + " requests=2");
  ASSERT_TRUE(keys.ok()) << keys.status();
  const std::string bearer = std::string("Bearer ") + kKey;
  auto first = (*keys)->admit(bearer);
  const auto second = (*keys)->admit(bearer);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ((*keys)->admit(bearer).status().code(), absl::StatusCode::kResourceExhausted);
  first->reset();
  EXPECT_TRUE((*keys)->admit(bearer).ok());
}

TEST_F(ApiKeysTest, TheErrorForABadFileNamesTheLineAndShowsNoKey) {
  for (const auto& [text, wanted] : std::vector<std::pair<std::string, std::string>>{
           {"", "must have at least one line"},
           {"alice\n", "line 1: must be NAME KEY"},
           {"# a\nalice short-secret\n", "line 2: KEY must have 16 to 512 bytes, found 12"},
           {std::string("alice ") + kKey + " requests=0", "requests=N with N from 1"},
           {std::string("alice ") + kKey + " requests=9x", "requests=N with N from 1"},
           {std::string("alice ") + kKey + " requests=2 more", "found more"},
           {"alice sha256:12", "64 hex digits"},
           {std::string("alice ") + kKey + "\nalice " + kKey + "2",
            "NAME must be unique, found alice twice"}}) {
    const absl::Status status = load(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(message_of(status), HasSubstr(wanted)) << text;
    EXPECT_THAT(message_of(status), Not(HasSubstr("secret")));
    EXPECT_THAT(message_of(status), Not(HasSubstr("0123456789")));
  }
  EXPECT_EQ(
      message_of(ApiKeys::load("/nowhere/keys").status()),
      "--api-keys /nowhere/keys: must be a file that can be read, found none (No such file or "
      "directory); its lines are NAME KEY");
}

}  // namespace
}  // namespace lockstep
