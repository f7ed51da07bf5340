// SPDX-License-Identifier: Apache-2.0
#include "tools/load/trace.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/files/temp_folder.h"

namespace lockstep {
namespace {

TEST(TraceTest, LinesAreSortedByTime) {
  const auto trace = parse_trace(
      "{\"at_s\": 2, \"prompt_tokens\": 7, \"max_tokens\": 3}\r\n"
      "\n"
      "{\"at_s\": 0.5, \"prompt\": \"Hello\", \"max_tokens\": 4, \"user\": \"a\"}",
      "trace");
  ASSERT_TRUE(trace.ok()) << trace.status();
  ASSERT_EQ(trace->size(), 2u);
  EXPECT_EQ((*trace)[0].at_s, 0.5);
  EXPECT_EQ((*trace)[0].prompt, "Hello");
  EXPECT_EQ((*trace)[0].max_tokens, 4);
  EXPECT_EQ((*trace)[1].prompt, "");
  EXPECT_EQ((*trace)[1].prompt_tokens, 7);
}

TEST(TraceTest, ABadLineIsNamed) {
  const std::string good = "{\"at_s\": 0, \"prompt_tokens\": 1, \"max_tokens\": 1}\n";
  const std::pair<const char*, const char*> cases[] = {
      {"{", "JSON"},
      {"[]", "an object"},
      {"{\"prompt_tokens\": 1, \"max_tokens\": 1}", "at_s"},
      {"{\"at_s\": -1, \"prompt_tokens\": 1, \"max_tokens\": 1}", "at_s: must be 0"},
      {"{\"at_s\": \"0\", \"prompt_tokens\": 1, \"max_tokens\": 1}", "at_s"},
      {"{\"at_s\": 0, \"max_tokens\": 1}", "either prompt or prompt_tokens"},
      {"{\"at_s\": 0, \"prompt\": \"a\", \"prompt_tokens\": 1, \"max_tokens\": 1}", "either"},
      {"{\"at_s\": 0, \"prompt\": \"\", \"max_tokens\": 1}", "empty"},
      {"{\"at_s\": 0, \"prompt_tokens\": 0, \"max_tokens\": 1}",
       "prompt_tokens: must be 1 to 10000000, found 0"},
      {"{\"at_s\": 0, \"prompt_tokens\": 1, \"max_tokens\": 99999999}",
       "max_tokens: must be 1 to 10000000, found 99999999"},
      {"{\"at_s\": 0, \"prompt_tokens\": 1}", "max_tokens"}};
  for (const auto& [line, named] : cases) {
    const auto trace = parse_trace(good + line, "load.jsonl");
    ASSERT_FALSE(trace.ok()) << line;
    const std::string message = message_of(trace.status());
    EXPECT_EQ(message.find("load.jsonl, line 2: "), 0u) << message;
    EXPECT_NE(message.find(named), std::string::npos) << message;
  }
}

TEST(TraceTest, AFileWithoutRequestsIsRefused) {
  EXPECT_FALSE(parse_trace("\n\n", "trace").ok());
  EXPECT_FALSE(read_trace("/no/such/file").ok());
}

TEST(TraceTest, PromptsAreTheNonEmptyLines) {
  const TempFolder folder;
  const auto path = folder.path() / "prompts.txt";
  std::ofstream(path) << "one line\n\n{\"two\"}\r\n";
  const auto prompts = read_prompts(path);
  ASSERT_TRUE(prompts.ok()) << prompts.status();
  EXPECT_EQ(*prompts, (std::vector<std::string>{"one line", "{\"two\"}"}));
  std::ofstream(path) << "\n";
  EXPECT_FALSE(read_prompts(path).ok());
}

}  // namespace
}  // namespace lockstep
