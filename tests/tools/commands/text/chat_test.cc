// SPDX-License-Identifier: Apache-2.0
// `lockstep chat` over a pipe.
#include <csignal>
#include <filesystem>
#include <optional>

#include "base/source_dir.h"
#include "tests/tools/commands/json_lines.h"

namespace lockstep::testing {
namespace {

ProcessResult chat(const std::string& input, std::vector<std::string> arguments = {}) {
  arguments.insert(arguments.begin(), {"chat", "--seed", "3"});
  return run_lockstep(std::move(arguments), {.input = input});
}

const std::vector<std::string> kShort = {"--max-tokens", "12"};

TEST(ChatCommandTest, EachLineIsAMessageThatTheConversationKeeps) {
  const ProcessResult result = chat("Once upon a time\n/stats\n\nThe next day\n/stats\n", kShort);
  EXPECT_EQ(result.code, 0) << result.err;
  // The same conversation by hand: the demo's template joins it into one story.
  const auto first =
      generate_json({"--prompt", "Once upon a time", "--seed", "3", kShort[0], kShort[1]});
  const std::string text = first[0]["text"];
  EXPECT_TRUE(result.out.starts_with(text + "\n")) << result.out;
  EXPECT_NE(result.err.find("2 messages; "), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("4 messages; "), std::string::npos) << result.err;
}

TEST(ChatCommandTest, RegenerateAnswersTheLastMessageAgainAndResetForgets) {
  const ProcessResult result =
      chat("Once upon a time\n/regenerate\n/stats\n/reset\n/stats\n/quit\nnever read\n", kShort);
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_NE(result.err.find("2 messages; "), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("\n0 messages; "), std::string::npos) << result.err;
  const size_t end = result.out.find('\n');
  EXPECT_NE(result.out.substr(0, end), result.out.substr(end + 1, end))
      << "the new answer has another seed";
  EXPECT_EQ(result.out.find("never"), std::string::npos);
}

TEST(ChatCommandTest, ASystemPromptStaysAfterReset) {
  const ProcessResult result =
      chat("/stats\n/reset\n/stats\n", {"--system", "Be brief.", "--max-tokens", "3"});
  EXPECT_EQ(result.err.find("1 messages; "), 0u) << result.err;
  EXPECT_NE(result.err.find("\n1 messages; "), std::string::npos) << result.err;
}

TEST(ChatCommandTest, AnUnanswerableMessageIsAnErrorOfOneLineAndTheChatContinues) {
  const ProcessResult result =
      chat("/regenerate\n" + std::string(70'000, 'a') + "\n/nothing\nOnce upon\n/stats", kShort);
  EXPECT_EQ(result.code, 1);
  EXPECT_NE(result.err.find("there is no answer to regenerate\n"), std::string::npos);
  EXPECT_NE(result.err.find("maximum context length is"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("there is no command /nothing; /help"), std::string::npos)
      << result.err;
  EXPECT_NE(result.err.find("\n2 messages; "), std::string::npos) << result.err;
  EXPECT_FALSE(result.out.empty());
}

TEST(ChatCommandTest, AModelWithoutATemplateIsRefusedBeforeItIsLoaded) {
  TemporaryFolder folder;
  const ProcessResult result = chat("", {"--chat-template", folder.path() + "/none"});
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.err.find('\n'), result.err.size() - 1) << result.err;
}

// The demo model with a context so large that no answer fills it during a test.
class EndlessAnswer {
 public:
  EndlessAnswer() {
    const std::filesystem::path demo = LOCKSTEP_SOURCE_DIR "/demo";
    for (const auto& file : std::filesystem::directory_iterator(demo)) {
      const std::string name = file.path().filename();
      if (name != "config.json") {
        std::filesystem::create_symlink(file.path(), folder_.path() + "/" + name);
      }
    }
    nlohmann::json config = nlohmann::json::parse(read_file(demo / "config.json"));
    config["max_position_embeddings"] = 500'000;
    folder_.write("config.json", config.dump());
    process_.emplace(std::vector<std::string>{lockstep_binary(), "chat", folder_.path(),
                                              "--ignore-eos", "--max-tokens", "500000"},
                     ProcessOptions{.input = "Once\n/stats\n"});
    EXPECT_TRUE(becomes_true([&] { return !process_->out().empty(); })) << process_->err();
  }
  Process& process() { return *process_; }

 private:
  TemporaryFolder folder_;
  std::optional<Process> process_;
};

TEST(ChatCommandTest, CtrlCStopsAnAnswerButNotTheChat) {
  EndlessAnswer answer;
  answer.process().signal(SIGINT);
  EXPECT_EQ(answer.process().wait(), 0) << answer.process().err();
  EXPECT_NE(answer.process().out().find(" [stopped]\n"), std::string::npos);
  EXPECT_NE(answer.process().err().find("2 messages; "), std::string::npos);
}

TEST(ChatCommandTest, SigtermEndsTheChat) {
  EndlessAnswer answer;
  answer.process().signal(SIGTERM);
  EXPECT_EQ(answer.process().wait(), 130) << answer.process().err();
}

}  // namespace
}  // namespace lockstep::testing
