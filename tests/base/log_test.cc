// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

// A pipe that is read only when the test says so.
class Pipe {
 public:
  Pipe() { EXPECT_EQ(pipe2(ends_.data(), O_CLOEXEC), 0); }
  ~Pipe() {
    close(ends_[0]);
    close_writing();
  }
  int reading() const { return ends_[0]; }
  int writing() const { return ends_[1]; }
  void close_writing() {
    if (ends_[1] >= 0) close(std::exchange(ends_[1], -1));
  }
  // All lines up to the end, after the last writer has closed the pipe.
  std::vector<std::string> lines() {
    close_writing();
    std::string text;
    std::array<char, 65536> bytes;
    for (ssize_t got = 1; (got = read(ends_[0], bytes.data(), bytes.size())) > 0;) {
      text.append(bytes.data(), static_cast<size_t>(got));
    }
    std::vector<std::string> lines;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) lines.push_back(line);
    return lines;
  }

 private:
  std::array<int, 2> ends_ = {-1, -1};
};

class LogTest : public ::testing::Test {
 protected:
  LogTest() { spdlog::set_level(spdlog::level::info); }
  ~LogTest() override { spdlog::set_level(spdlog::level::warn); }

  void begin(LogFormat format) {
    log_.emplace(Log::Options{.format = format, .background = true, .descriptor = pipe_.writing()});
  }
  std::vector<std::string> end() {
    log_.reset();
    return pipe_.lines();
  }

  Pipe pipe_;
  std::optional<Log> log_;
};

TEST_F(LogTest, AJsonLineIsOneObjectForAnyMessage) {
  begin(LogFormat::kJson);
  spdlog::warn("a \"quote\", a\nline, a byte \xff and {{}}");
  spdlog::debug("not at this level");
  log_->announce("ready");
  const std::vector<std::string> lines = end();
  ASSERT_EQ(lines.size(), 2u);
  const OrderedJson json = OrderedJson::parse(lines[0]);
  EXPECT_THAT(json["time"].get<std::string>(), MatchesRegex("20..-..-..T..:..:..\\....Z"));
  EXPECT_EQ(json["level"], "warning");
  EXPECT_EQ(json["message"], "a \"quote\", a\nline, a byte \uFFFD and {{}}");
  EXPECT_EQ(json.size(), 3u);
  EXPECT_EQ(OrderedJson::parse(lines[1])["message"], "ready");
}

TEST_F(LogTest, FieldsAreMembersOfTheObject) {
  begin(LogFormat::kJson);
  log_fields("request", {{"id", "a\"b"}, {"tokens", 3}});
  log_fields("request", OrderedJson::object());
  const std::vector<std::string> lines = end();
  ASSERT_EQ(lines.size(), 2u);
  const OrderedJson json = OrderedJson::parse(lines[0]);
  EXPECT_EQ(json["message"], "request");
  EXPECT_EQ(json["id"], "a\"b");
  EXPECT_EQ(json["tokens"], 3);
  EXPECT_EQ(OrderedJson::parse(lines[1]).size(), 3u);
}

TEST_F(LogTest, FieldsFollowTheMessageInText) {
  begin(LogFormat::kText);
  log_fields("request", {{"id", "a"}});
  EXPECT_THAT(end().at(0), HasSubstr("[info] request {\"id\":\"a\"}"));
}

// The test logs more lines than fit into the pipe and the queue, and reads none meanwhile. If
// logging waited for a reader, this test would not end.
TEST_F(LogTest, LoggingDoesNotWaitForAReaderAndDropsTheOldestLines) {
  begin(LogFormat::kJson);
  const std::string text(1000, 'x');
  constexpr int kLines = 10'000;
  for (int i = 0; i < kLines; ++i) spdlog::warn("line {} {}", i, text);
  EXPECT_GT(log_->dropped(), 0);
  const int64_t dropped = log_->dropped();
  std::vector<std::string> lines;
  std::thread reader([&] { lines = pipe_.lines(); });
  log_.reset();  // Waits for a short time, in which the reader takes the queued lines.
  reader.join();
  EXPECT_EQ(std::ssize(lines) + dropped, kLines);
  EXPECT_THAT(lines.back(), HasSubstr("line 9999 "));
}

TEST_F(LogTest, ALineSaysHowManyLinesWereDropped) {
  begin(LogFormat::kJson);
  const std::string text(1000, 'x');
  for (int i = 0; i < 10'000; ++i) spdlog::warn("line {} {}", i, text);
  const int64_t dropped = log_->dropped();
  std::vector<std::string> lines;
  std::array<char, 65536> bytes;
  std::string all;
  while (all.find("line 9999 ") == std::string::npos) {
    const ssize_t got = read(pipe_.reading(), bytes.data(), bytes.size());
    ASSERT_GT(got, 0);
    all.append(bytes.data(), static_cast<size_t>(got));
  }
  spdlog::warn("there is room again");
  lines = end();
  const auto said = std::ranges::find_if(lines, [](const std::string& line) {
    return line.find("log lines were dropped") != std::string::npos;
  });
  ASSERT_NE(said, lines.end());
  EXPECT_THAT(*said, HasSubstr(std::to_string(dropped) + " log lines were dropped"));
}

TEST_F(LogTest, EndingALogDoesNotWaitForAReader) {
  begin(LogFormat::kText);
  const std::string text(1000, 'x');
  for (int i = 0; i < 1000; ++i) spdlog::warn(text);
  log_.reset();
  EXPECT_FALSE(pipe_.lines().empty());
}

TEST(LogFormatTest, AFormatIsTextOrJson) {
  EXPECT_EQ(log_format_of("json").value(), LogFormat::kJson);
  EXPECT_EQ(log_format_of("text").value(), LogFormat::kText);
  EXPECT_THAT(std::string(log_format_of("xml").status().message()),
              HasSubstr("--log-format xml: must be text or json"));
}

}  // namespace
}  // namespace lockstep
