// SPDX-License-Identifier: Apache-2.0
#include "tools/load/sse.h"

#include <gtest/gtest.h>

#include <vector>

namespace lockstep {
namespace {

std::vector<std::string> events_of(std::string_view bytes, size_t piece) {
  SseParser parser;
  std::vector<std::string> events;
  for (size_t at = 0; at < bytes.size(); at += piece) {
    EXPECT_TRUE(parser
                    .feed(bytes.substr(at, piece),
                          [&](std::string_view data) { events.emplace_back(data); })
                    .ok());
  }
  return events;
}

TEST(SseParserTest, AnyPiecesOfTheBytesGiveTheSameEvents) {
  const std::string bytes =
      "\xef\xbb\xbf"
      "data: first\n\n"
      ": a comment\r\nid: 7\r\ndata:second\r\ndata: line \r\n\r\n"
      "event: done\rdata:  two blanks\r\r"
      "data\n\n"
      "retry: 5\n\n"
      "data: never ended\n";
  const std::vector<std::string> wanted = {"first", "second\nline ", " two blanks", ""};
  for (size_t piece = 1; piece <= bytes.size(); ++piece) {
    EXPECT_EQ(events_of(bytes, piece), wanted) << piece;
  }
}

TEST(SseParserTest, AnEndlessEventIsAnErrorAndUsesNoMoreMemory) {
  for (const char* line : {"x", "data: x\n"}) {
    SseParser parser;
    std::string piece;
    while (piece.size() < (1 << 20)) piece += line;
    absl::Status status;
    int pieces = 0;
    while (status.ok() && pieces < 100) {
      status = parser.feed(piece, [](std::string_view) { FAIL(); });
      ++pieces;
    }
    EXPECT_LE(pieces, 65) << line;
    EXPECT_FALSE(status.ok());
  }
}

}  // namespace
}  // namespace lockstep
