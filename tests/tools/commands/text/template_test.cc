// SPDX-License-Identifier: Apache-2.0
// `lockstep template`.
#include "tests/tools/commands/json_lines.h"

namespace lockstep::testing {
namespace {

// Passes one line of input for each object.
std::vector<nlohmann::json> template_lines(const std::vector<nlohmann::ordered_json>& lines,
                                           std::vector<std::string> arguments = {}) {
  std::string input;
  for (const auto& line : lines) input += line.dump() + "\n";
  arguments.insert(arguments.begin(), {"template", "--jsonl"});
  const ProcessResult result = run_lockstep(arguments, {.input = input});
  EXPECT_EQ(result.code, 0) << result.err;
  return json_lines(result.out);
}

const nlohmann::ordered_json kHello = {{{"role", "user"}, {"content", "Hi <|end|>"}}};

TEST(TemplateCommandTest, EachLineGivesALineOfTextOrAnError) {
  const auto lines = template_lines({
      {{"chat_template",
        "{{ bos_token }}{{ messages[0].content }}{% if add_generation_prompt %}:{% endif %}"},
       {"messages", kHello},
       {"bos_token", "<s>"},
       {"add_generation_prompt", true}},
      {{"chat_template", "\n{{ raise_exception('no ' ~ messages[0].role) }}"},
       {"messages", kHello}},
      {{"chat_template", "{{ }}"}, {"messages", kHello}},
      {{"messages", kHello}},
      {{"chat_template", "x"}},
  });
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_EQ(lines[0], (nlohmann::json{{"text", "<s>Hi <|end|>:"}}));
  EXPECT_EQ(lines[1], (nlohmann::json{{"error", "line 2: no user"}}));
  EXPECT_EQ(lines[2]["error"], "line 1: expected an expression, found '}}'");
  EXPECT_NE(lines[3]["error"].get<std::string>().find("chat template: must be given by"),
            std::string::npos);
  EXPECT_EQ(lines[4]["error"], "messages: must be a list of objects");
}

TEST(TemplateCommandTest, OtherVariablesArePassedOnlyIfTheyAreNamed) {
  const nlohmann::ordered_json line = {{"chat_template", "{{ enable_thinking }}{{ mood }}"},
                                       {"messages", kHello},
                                       {"enable_thinking", false},
                                       {"mood", "good"}};
  EXPECT_EQ(template_lines({line})[0]["text"], "False");
  EXPECT_EQ(template_lines({line}, {"--template-vars", "mood,weather"})[0]["text"], "Falsegood");
}

TEST(TemplateCommandTest, ATemplateIsReadFromAFileOrAModel) {
  TemporaryFolder folder;
  const std::string file = folder.write("chat_template.jinja", "file {{ messages|length }}\n");
  EXPECT_EQ(template_lines({{{"messages", kHello}}}, {"--chat-template", file})[0]["text"],
            "file 1");
  EXPECT_EQ(template_lines({{{"messages", kHello}}}, {"--chat-template", "chatml"})[0]["text"],
            "<|im_start|>user\nHi <|end|><|im_end|>\n");
  EXPECT_EQ(template_lines({{{"messages", kHello}}}, {folder.path()})[0]["text"], "file 1");
  EXPECT_EQ(template_lines({{{"messages", kHello}, {"model", folder.path()}}})[0]["text"],
            "file 1");
}

TEST(TemplateCommandTest, TheOutputShowsWhichBytesCameFromTheInput) {
  const auto lines = template_lines(
      {{{"chat_template", "<|end|>{{ messages[0].content }}"}, {"messages", kHello}}},
      {"--ranges"});
  EXPECT_EQ(lines[0]["from_request"], nlohmann::json::parse("[[7, 17]]"));
}

TEST(TemplateCommandTest, WithoutJsonlOnlyTheTextIsPrintedOrTheCommandFails) {
  const nlohmann::ordered_json line = {{"chat_template", "{{ messages[0].role }}\n\n"},
                                       {"messages", kHello}};
  const ProcessResult result = run_lockstep({"template"}, {.input = line.dump()});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "user\n");
  const ProcessResult failed = run_lockstep({"template"}, {.input = "{}"});
  EXPECT_EQ(failed.code, 2);
  EXPECT_EQ(failed.err.find('\n'), failed.err.size() - 1);
}

}  // namespace
}  // namespace lockstep::testing
