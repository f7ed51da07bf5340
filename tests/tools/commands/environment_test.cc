// SPDX-License-Identifier: Apache-2.0
// Options of `lockstep serve` that are given in the environment.
#include <gmock/gmock.h>

#include <set>

#include "tests/tools/commands/json_lines.h"

namespace lockstep::testing {
namespace {

using ::testing::HasSubstr;

using Variables = std::map<std::string, std::string>;

// Returns the error of a server that refuses its options.
std::string refusal_of(const Variables& environment, std::vector<std::string> arguments = {}) {
  arguments.insert(arguments.begin(), "serve");
  const ProcessResult result = run_lockstep(std::move(arguments), {.environment = environment});
  EXPECT_EQ(result.code, 2) << result.err;
  EXPECT_EQ(lines_said(result.err), 1) << result.err;
  return result.err;
}

TEST(EnvironmentTest, AnOptionIsRead) {
  EXPECT_THAT(refusal_of({{"LOCKSTEP_GRPC", "nonsense"}}), HasSubstr("--grpc nonsense"));
  EXPECT_THAT(refusal_of({{"LOCKSTEP_MODEL", "/no/such/folder"}}), HasSubstr("/no/such/folder"));
  EXPECT_THAT(refusal_of({{"LOCKSTEP_DRAIN_SECONDS", "-1"}}),
              HasSubstr("found -1 (from LOCKSTEP_DRAIN_SECONDS)"));
  EXPECT_THAT(refusal_of({{"LOCKSTEP_DRAIN_SECONDS", "soon"}}), HasSubstr("soon"));
}

TEST(EnvironmentTest, ASwitchIsReadAsTrueOrFalse) {
  const Variables workers = {{"LOCKSTEP_WORKERS", "7"}};  // Refused after all options are read.
  for (const char* value : {"true", "false", "1", "0"}) {
    Variables both = workers;
    both["LOCKSTEP_NO_PIN"] = value;
    EXPECT_THAT(refusal_of(both), HasSubstr("6 heads")) << value;
  }
  EXPECT_THAT(refusal_of({{"LOCKSTEP_NO_PIN", "perhaps"}}), HasSubstr("perhaps"));
}

TEST(EnvironmentTest, TheCommandLineOverridesTheEnvironment) {
  EXPECT_THAT(refusal_of({{"LOCKSTEP_DRAIN_SECONDS", "-1"}}, {"--drain-seconds", "-2"}),
              HasSubstr("found -2 (see"));
}

TEST(EnvironmentTest, AnEmptyVariableIsIgnored) {
  EXPECT_THAT(refusal_of({{"LOCKSTEP_GRPC", ""}, {"LOCKSTEP_WORKERS", "7"}}), HasSubstr("6 heads"));
}

TEST(EnvironmentTest, OtherCommandsIgnoreTheEnvironment) {
  const ProcessResult result = run_lockstep(
      {"tokenize", "--text", "a"},
      {.environment = {{"LOCKSTEP_WORKERS", "two"}, {"LOCKSTEP_MODEL", "/no/such/folder"}}});
  EXPECT_EQ(result.code, 0) << result.err;
}

TEST(EnvironmentTest, HelpNamesAVariableForEachOption) {
  const std::string help = run_lockstep({"serve", "--help"}).out;
  std::set<std::string> variables;
  for (size_t at = 0; (at = help.find("(Env:", at)) != std::string::npos; ++at) {
    variables.insert(help.substr(at + 5, help.find(')', at) - at - 5));
  }
  EXPECT_TRUE(variables.contains("LOCKSTEP_MODEL"));
  size_t options = 1;  // MODEL.
  for (size_t at = 0; (at = help.find("\n  --", at)) != std::string::npos; ++at) {
    std::string name = help.substr(at + 5, help.find_first_of(" \n", at + 5) - at - 5);
    for (char& c : name) c = c == '-' ? '_' : static_cast<char>(std::toupper(c));
    EXPECT_TRUE(variables.contains("LOCKSTEP_" + name)) << name;
    ++options;
  }
  EXPECT_EQ(variables.size(), options);
  EXPECT_GT(options, 20u);
}

}  // namespace
}  // namespace lockstep::testing
