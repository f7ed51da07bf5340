// SPDX-License-Identifier: Apache-2.0
#include "coordinator/http/response_writer.h"

#include <gtest/gtest.h>

namespace lockstep::http {
namespace {

std::string head(const Response& response, BodyKind kind, bool keep_alive = true) {
  std::string bytes;
  append_head(response, kind, keep_alive, &bytes);
  EXPECT_TRUE(bytes.ends_with("\r\n\r\n"));
  return bytes;
}
bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(ResponseWriterTest, TheHeadSaysHowTheBodyEndsAndIfTheConnectionCloses) {
  const Response response{.body = "abc"};
  EXPECT_TRUE(head(response, BodyKind::kLength).starts_with("HTTP/1.1 200 OK\r\nDate: "));
  EXPECT_TRUE(has(head(response, BodyKind::kLength), "\r\nContent-Length: 3\r\n"));
  EXPECT_TRUE(has(head(response, BodyKind::kNone), "\r\nContent-Length: 3\r\n"));
  EXPECT_FALSE(has(head(response, BodyKind::kLength), "Connection"));
  EXPECT_TRUE(has(head(response, BodyKind::kLength, false), "\r\nConnection: close\r\n"));
  EXPECT_TRUE(has(head({}, BodyKind::kChunks), "\r\nTransfer-Encoding: chunked\r\n"));
  EXPECT_FALSE(has(head({}, BodyKind::kChunks), "Content-Length"));
  EXPECT_FALSE(has(head({}, BodyKind::kUntilEnd, false), "Content-Length"));
  EXPECT_FALSE(has(head({.status = 204}, BodyKind::kLength), "Content-Length"));
  EXPECT_TRUE(head({.status = 299}, BodyKind::kLength).starts_with("HTTP/1.1 299 \r\n"));
}

TEST(ResponseWriterTest, AValueFromARequestCannotBeginAHeader) {
  const std::string bytes =
      head({.headers = {{"X-Id", "a\r\nSet-Cookie: b\n\nc"}}}, BodyKind::kNone);
  EXPECT_TRUE(has(bytes, "\r\nX-Id: a  Set-Cookie: b  c\r\n"));
}

TEST(ResponseWriterTest, HeadersThatOnlyTheServerMaySetAreLeftOut) {
  const std::string bytes = head(
      {.headers = {{"content-length", "9"}, {"Transfer-Encoding", "x"}, {"Connection", "upgrade"}}},
      BodyKind::kLength);
  EXPECT_FALSE(has(bytes, "content-length: 9"));
  EXPECT_FALSE(has(bytes, "Transfer-Encoding"));
  EXPECT_FALSE(has(bytes, "Connection"));
}

TEST(ResponseWriterTest, AChunkHasTheBytesThatWereAppendedSinceItBegan) {
  std::string bytes = "before";
  {
    ChunkWriter chunk(&bytes);
    bytes += std::string(300, 'x');
    EXPECT_TRUE(chunk.end());
  }
  EXPECT_EQ(bytes, "before0000012c\r\n" + std::string(300, 'x') + "\r\n");
  ChunkWriter empty(&bytes);
  const size_t size = bytes.size() - 10;
  EXPECT_FALSE(empty.end());
  EXPECT_EQ(bytes.size(), size);
}

}  // namespace
}  // namespace lockstep::http
