// SPDX-License-Identifier: Apache-2.0
// `lockstep completion`: its scripts in their shells, and its manual page in the programs that show
// such pages.
#include <algorithm>
#include <filesystem>
#include <sstream>

#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "tests/tools/commands/json_lines.h"

namespace lockstep::testing {
namespace {

using Words = std::vector<std::string>;

// The output of `lockstep completion KIND`.
std::string printed(const std::string& kind) {
  const ProcessResult result = run_lockstep({"completion", kind});
  EXPECT_EQ(result.code, 0) << result.err;
  return result.out;
}

// The lines that a program prints, which must neither fail nor complain.
Words run(const Words& arguments) {
  Process process(arguments);
  EXPECT_EQ(process.wait(), 0) << arguments[0];
  EXPECT_EQ(process.err(), "") << arguments[0];
  Words lines;
  std::istringstream out(process.out());
  for (std::string line; std::getline(out, line);) lines.push_back(line);
  return lines;
}

bool has(const Words& words, const std::string& word) {
  return std::ranges::count(words, word) == 1;
}

// The completions in bash of the last word, in a folder with one file.
Words in_bash(const Words& words) {
  const TemporaryFolder folder;
  const std::string script = folder.write("script", printed("bash"));
  std::string line = "source ./script; COMP_WORDS=(lockstep";
  for (const std::string& word : words) line += " '" + word + "'";
  line += "); COMP_CWORD=" + std::to_string(words.size()) + "; _lockstep; ";
  line += R"(for word in "${COMPREPLY[@]}"; do echo "$word"; done)";
  return run({"bash", "-c", "cd '" + folder.path() + "'; " + line});
}

// Flags in the first column of `lockstep COMMAND --help`.
Words flags_of(Words command) {
  command.emplace_back("--help");
  Words flags;
  std::istringstream help(run_lockstep(command).out);
  for (std::string line; std::getline(help, line);) {
    if (!line.starts_with("  -")) continue;
    const std::string names = line.substr(2, line.find(' ', 2) - 2);
    std::istringstream each(names);
    for (std::string name; std::getline(each, name, ',');) flags.push_back(name);
  }
  EXPECT_FALSE(flags.empty());
  return flags;
}

std::vector<Words> commands() {
  std::vector<Words> all = {{"bench", "serve"}};
  for (const std::string& name : in_bash({""})) all.push_back({name});
  EXPECT_GT(all.size(), 10u);
  return all;
}

bool is_installed(const std::string& program) {
  return std::filesystem::exists("/usr/bin/" + program);
}

TEST(CompletionTest, BashCompletesCommands) {
  EXPECT_EQ(in_bash({"ser"}), Words({"serve"}));
  EXPECT_EQ(in_bash({"--vers"}), Words({"--version"}));
  EXPECT_TRUE(has(in_bash({"bench", "ser"}), "serve"));
  EXPECT_EQ(in_bash({"bench", "serve", "--conc"}), Words({"--concurrency"}));
}

TEST(CompletionTest, BashCompletesFlagsAndTheirValues) {
  EXPECT_EQ(in_bash({"serve", "--str"}), Words({"--strategy"}));
  EXPECT_EQ(in_bash({"serve", "--strategy", ""}), Words({"gather", "reduce"}));
  EXPECT_EQ(in_bash({"serve", "--strategy", "=", "red"}), Words({"reduce"}));
  EXPECT_EQ(in_bash({"serve", "--strategy", "="}), Words({"gather", "reduce"}));
  EXPECT_TRUE(has(in_bash({"serve", "--tool-parser", ""}), "hermes"));
  EXPECT_EQ(in_bash({"serve", "--workers", ""}), Words());
  EXPECT_EQ(in_bash({"worker", "--parent"}), Words());  // A hidden flag.
}

TEST(CompletionTest, BashCompletesFilesForModelsAndForFlagsThatTakeFiles) {
  EXPECT_EQ(in_bash({"serve", ""}), Words({"script"}));
  EXPECT_EQ(in_bash({"serve", "--tls-cert", "sc"}), Words({"script"}));
  EXPECT_EQ(in_bash({"serve", "--weight-cache", ""}), Words({"auto", "off", "script"}));
  EXPECT_EQ(in_bash({"doctor", "sc"}), Words());
}

TEST(CompletionTest, BashCompletesEachFlagOfEachHelp) {
  for (Words command : commands()) {
    const Words flags = flags_of(command);
    command.emplace_back("-");
    const Words offered = in_bash(command);
    for (const std::string& flag : flags) {
      EXPECT_TRUE(has(offered, flag)) << command[0] << " " << flag;
    }
  }
}

TEST(CompletionTest, ZshReadsItsScript) {
  if (!is_installed("zsh")) GTEST_SKIP() << "zsh is not installed";
  const TemporaryFolder folder;
  EXPECT_EQ(run({"zsh", "-n", folder.write("_lockstep", printed("zsh"))}), Words());
}

TEST(CompletionTest, FishCompletesCommandsFlagsAndValues) {
  if (!is_installed("fish")) GTEST_SKIP() << "fish is not installed";
  const TemporaryFolder folder;
  const std::string script = folder.write("lockstep.fish", printed("fish"));
  const auto offers = [&](const std::string& line) {
    Words words = run({"fish", "--no-config", "-c",
                       "source " + script + "; complete -C 'lockstep " + line + "'"});
    for (std::string& word : words) word = word.substr(0, word.find('\t'));
    return words;
  };
  EXPECT_EQ(offers("ser"), Words({"serve"}));
  EXPECT_EQ(offers("serve --str"), Words({"--strategy"}));
  EXPECT_EQ(offers("serve --strategy "), Words({"gather", "reduce"}));
  EXPECT_EQ(offers("bench serve --conc"), Words({"--concurrency"}));
  EXPECT_EQ(offers("serve --conc"), Words());
}

TEST(CompletionTest, ThePageHasEachCommandAndEachFlagOfItsHelp) {
  const std::string page = absl::StrReplaceAll(printed("man"), {{"\\-", "-"}});
  for (const Words& command : commands()) {
    const std::string name = absl::StrJoin(command, " ");
    EXPECT_NE(page.find(".SS \"lockstep " + name + " "), page.npos) << name;
    for (const std::string& flag : flags_of(command)) {
      EXPECT_NE(page.find("\\fB" + flag + "\\fR"), page.npos) << name << " " << flag;
    }
  }
  EXPECT_EQ(page.find("--parent-pid"), page.npos);
}

TEST(CompletionTest, ReadersOfPagesHaveNoWarning) {
  const TemporaryFolder folder;
  const std::string page = folder.write("lockstep.1", printed("man"));
  if (!is_installed("groff") && !is_installed("mandoc")) GTEST_SKIP() << "no reader is installed";
  if (is_installed("groff")) {
    EXPECT_EQ(run({"groff", "-man", "-ww", "-Tutf8", "-z", page}), Words());
  }
  if (is_installed("mandoc")) {
    // The page has no date: a build's output depends on its sources alone.
    const std::string warnings = "mandoc -T lint -W warning '" + page + "'";
    EXPECT_EQ(run({"sh", "-c", warnings + " | grep -v 'missing date' || true"}), Words());
  }
}

TEST(CompletionTest, AnotherShellIsRefused) {
  const ProcessResult result = run_lockstep({"completion", "tcsh"});
  EXPECT_EQ(result.code, 2);
  EXPECT_NE(result.err.find("must be bash or zsh or fish or man, found tcsh"), std::string::npos)
      << result.err;
}

}  // namespace
}  // namespace lockstep::testing
