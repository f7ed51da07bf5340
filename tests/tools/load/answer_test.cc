// SPDX-License-Identifier: Apache-2.0
#include "tools/load/answer.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

const std::string kToken = "data: {\"choices\": [{\"text\": \"a\"}]}\n\n";
const std::string kLast =
    "data: {\"choices\": [{\"text\": \"\", \"finish_reason\": \"stop\"}]}\n\n";
const std::string kUsage =
    "data: {\"choices\": [], \"usage\": {\"prompt_tokens\": 4, \"completion_tokens\": 3}}\n\n";
const std::string kDone = "data: [DONE]\n\n";

TEST(AnswerReaderTest, TimesAreThoseWhenTheBytesArrived) {
  LoadRecord record;
  AnswerReader reader(&record);
  reader.feed(kToken, 1.0);
  reader.feed(kToken.substr(0, 9), 1.5);  // An event counts when it is complete.
  reader.feed(kToken.substr(9) + kToken, 2.0);
  reader.feed(kLast + kUsage + kDone, 3.0);
  reader.feed(kToken, 4.0);  // After the end.
  reader.end(4.0);
  EXPECT_EQ(record.failure, "");
  EXPECT_EQ(record.text_events, 3);
  EXPECT_EQ(record.first_text_s, 1.0);
  EXPECT_EQ(record.last_text_s, 2.0);
  EXPECT_EQ(record.end_s, 3.0);
  EXPECT_EQ(record.gaps_ms, (std::vector<float>{1000, 0}));
  EXPECT_EQ(record.prompt_tokens, 4);
  EXPECT_EQ(record.output_tokens, 3);
}

TEST(AnswerReaderTest, AnAnswerWithoutTextHasItsFirstTokenWhenItEnds) {
  LoadRecord record;
  AnswerReader reader(&record);
  reader.feed(kLast, 2.0);
  reader.end(9.0);
  EXPECT_EQ(record.failure, "");
  EXPECT_EQ(record.first_text_s, 2.0);
  EXPECT_EQ(record.end_s, 2.0);
}

TEST(AnswerReaderTest, EveryTruncationBeforeTheEndIsAFailure) {
  const std::string bytes = kToken + kLast + kDone;
  for (size_t cut = 0; cut < bytes.size(); ++cut) {
    LoadRecord record;
    AnswerReader reader(&record);
    reader.feed(bytes.substr(0, cut), 1.0);
    reader.end(2.0);
    EXPECT_EQ(record.failure, cut < kToken.size() + kLast.size() ? "cut off" : "") << cut;
  }
}

TEST(AnswerReaderTest, TheFirstFailureIsKept) {
  LoadRecord record;
  AnswerReader reader(&record);
  reader.feed(kToken + "data: {\"error\": {\"message\": \"lost\\nrank\"}}\n\n" + kToken + kDone,
              1.0);
  reader.feed("data: nonsense\n\n", 2.0);
  reader.end(3.0);
  EXPECT_EQ(record.failure, "error event");
  EXPECT_EQ(record.detail, "lost?rank");
  EXPECT_EQ(record.end_s, 1.0);
  EXPECT_EQ(record.text_events, 1);
}

TEST(AnswerReaderTest, AnEventThatIsNoJsonIsAFailure) {
  LoadRecord record;
  AnswerReader reader(&record);
  reader.feed("data: nonsense\n\n", 1.0);
  EXPECT_EQ(record.failure, "bad event");
}

}  // namespace
}  // namespace lockstep
