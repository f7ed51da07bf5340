// SPDX-License-Identifier: Apache-2.0
// Options of `lockstep serve` and `lockstep worker` that are given in the environment.
#include <gmock/gmock.h>

#include <set>

#include "tests/tools/commands/json_lines.h"

namespace lockstep::testing {
namespace {

using ::testing::HasSubstr;

using Variables = std::map<std::string, std::string>;

// Returns the error of a command that refuses its options.
std::string refusal_of(const Variables& environment, std::vector<std::string> arguments = {},
                       const std::string& command = "serve") {
  arguments.insert(arguments.begin(), command);
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

// A worker that refuses its options, apart from the variables that every worker needs.
std::string workers_refusal_of(Variables environment, const std::vector<std::string>& more = {}) {
  environment.insert(
      {{"LOCKSTEP_COORDINATOR", "127.0.0.1:1"}, {"LOCKSTEP_JOIN_TOKEN", "sesame, open please"}});
  return refusal_of(environment, more, "worker");
}

TEST(EnvironmentTest, AWorkersOptionIsRead) {
  EXPECT_THAT(workers_refusal_of({{"LOCKSTEP_COORDINATOR", "nonsense"}}),
              HasSubstr("--coordinator nonsense"));
  EXPECT_THAT(workers_refusal_of({{"LOCKSTEP_RANK", "worker-1"}}),
              HasSubstr("--rank: must be a whole number from 0 to 65535, found worker-1 (from "
                        "LOCKSTEP_RANK)"));
  EXPECT_THAT(workers_refusal_of({{"LOCKSTEP_SPARE", "perhaps"}}), HasSubstr("perhaps"));
  EXPECT_THAT(workers_refusal_of({{"LOCKSTEP_HEALTH", "nonsense"}}),
              HasSubstr("--health nonsense"));
  EXPECT_THAT(workers_refusal_of({{"LOCKSTEP_INSECURE", "http"}}), HasSubstr("--insecure"));
  EXPECT_THAT(workers_refusal_of({{"LOCKSTEP_CLUSTER_CERT", "/no/such/file"}}),
              HasSubstr("--cluster-cert: must be a readable file, found /no/such/file"));
  EXPECT_THAT(workers_refusal_of({{"LOCKSTEP_DATA_LISTEN", "0.0.0.0:8082"}}),
              HasSubstr("--data-listen 0.0.0.0:8082"));
}

TEST(EnvironmentTest, AWorkersCommandLineOverridesItsEnvironment) {
  EXPECT_THAT(workers_refusal_of({{"LOCKSTEP_COORDINATOR", "nonsense"}},
                                 {"--coordinator", "more nonsense"}),
              HasSubstr("--coordinator more nonsense"));
  EXPECT_THAT(workers_refusal_of({{"LOCKSTEP_RANK", ""}, {"LOCKSTEP_HEALTH", "nonsense"}}),
              HasSubstr("--health nonsense"));
  EXPECT_THAT(refusal_of({{"LOCKSTEP_COORDINATOR", ""}}, {}, "worker"),
              HasSubstr("--coordinator is required"));
}

// `lockstep serve` and tools/launch.sh pass all options to their workers as arguments. Variables in
// the environment are for the launcher, for instance the threads of a pod with several workers.
TEST(EnvironmentTest, AWorkerThatWasLaunchedIgnoresTheEnvironment) {
  const std::vector<std::string> launched = {"worker", "--parent-pid", "1", "--coordinator",
                                             "127.0.0.1:1"};
  for (const char* name : {"LOCKSTEP_HEALTH", "LOCKSTEP_RANK", "LOCKSTEP_THREADS", "LOCKSTEP_SPARE",
                           "LOCKSTEP_LOG_LEVEL", "LOCKSTEP_DATA_LISTEN"}) {
    const ProcessResult result = run_lockstep(
        launched,
        {.environment = {{name, "nonsense"}, {"LOCKSTEP_JOIN_TOKEN", "sesame, open please"}}});
    // The worker ends at once, because process 1 is not its parent.
    EXPECT_EQ(result.code, 0) << name << ": " << result.err;
  }
}

class HelpOfTest : public ::testing::TestWithParam<const char*> {};

TEST_P(HelpOfTest, NamesAVariableForEachOption) {
  const std::string help = run_lockstep({GetParam(), "--help"}).out;
  std::set<std::string> variables;
  for (size_t at = 0; (at = help.find("(Env:", at)) != std::string::npos; ++at) {
    variables.insert(help.substr(at + 5, help.find(')', at) - at - 5));
  }
  const bool has_model = variables.contains("LOCKSTEP_MODEL");
  EXPECT_EQ(has_model, GetParam() == std::string("serve"));
  size_t options = has_model ? 1 : 0;
  for (size_t at = 0; (at = help.find("\n  --", at)) != std::string::npos; ++at) {
    std::string name = help.substr(at + 5, help.find_first_of(" \n", at + 5) - at - 5);
    for (char& c : name) c = c == '-' ? '_' : static_cast<char>(std::toupper(c));
    EXPECT_TRUE(variables.contains("LOCKSTEP_" + name)) << name;
    ++options;
  }
  EXPECT_EQ(variables.size(), options);
  EXPECT_GT(options, 15u);
  EXPECT_THAT(help, HasSubstr("The command line has precedence."));
}

INSTANTIATE_TEST_SUITE_P(Commands, HelpOfTest, ::testing::Values("serve", "worker"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace lockstep::testing
