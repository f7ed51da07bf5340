// SPDX-License-Identifier: Apache-2.0
// Wrong frames, and frames without end: the stream or the connection ends, and others are served.
#include <thread>

#include "tests/coordinator/http/scripted_server.h"
#include "tests/support/network/http2.h"

namespace lockstep::http {
namespace {

using std::chrono::milliseconds;
using testing::Socket;
using namespace testing::http2;  // NOLINT(google-build-using-namespace): the names of frames.

constexpr char kPong[] = "12345678";

// A client that sends bytes as they are.
class RawClient {
 public:
  explicit RawClient(const std::string& address, const std::string& first = preface())
      : socket_(address) {
    socket_.send(first);
  }
  bool send(const std::string& bytes) const { return socket_.send(bytes); }
  // Waits for a frame of this type that has these flags. False: the connection ended first.
  bool receives(FrameType type, uint8_t flags = 0) {
    while (true) {
      while (received_.size() >= kFrameHead) {
        const auto byte = [&](int i) { return static_cast<uint8_t>(received_[i]); };
        const size_t size = byte(0) << 16 | byte(1) << 8 | byte(2);
        if (received_.size() < kFrameHead + size) break;
        const bool is_it = byte(3) == type && (byte(4) & flags) == flags;
        received_.erase(0, kFrameHead + size);
        if (is_it) return true;
      }
      const std::string more = socket_.receive();
      if (more.empty()) return false;
      received_ += more;
    }
  }
  bool ends() {
    while (!socket_.receive().empty()) {
    }
    return true;
  }
  // Whether the server still answers on this connection.
  bool is_served() { return send(frame(kPing, 0, 0, kPong)) && receives(kPing, /*flags=*/1); }

 private:
  static constexpr size_t kFrameHead = 9;

  Socket socket_;
  std::string received_;
};

std::string head(uint32_t stream, const Headers& headers, bool is_last = true) {
  return frame(kHeaders, kEndHeaders | (is_last ? kEndStream : 0), stream, hpack(headers));
}

const Headers kQuickHead = {
    {":method", "GET"}, {":scheme", "http"}, {":path", "/quick"}, {":authority", "test"}};

Headers with(const Headers& more) {
  Headers all = kQuickHead;
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

struct WrongFrames {
  const char* name;
  std::string bytes;
};

TEST(Http2FramesTest, BytesThatAreNotHttp2EndTheConnection) {
  ScriptedServer server(http2_options());
  const WrongFrames cases[] = {
      {"garbage", std::string(100'000, '\xff')},
      {"HTTP/1.1", "GET /quick HTTP/1.1\r\nHost: x\r\n\r\n"},
      {"a wrong preface", "PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n" + frame(kSettings, 0, 0, "")},
      {"no SETTINGS", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(kPing, 0, 0, kPong)},
  };
  for (const auto& [name, bytes] : cases) {
    SCOPED_TRACE(name);
    RawClient client(server.address(), bytes);
    EXPECT_TRUE(client.ends());
    server.expect_alive();
  }
}

TEST(Http2FramesTest, ConnectionErrorsEndTheConnection) {
  ScriptedServer server(http2_options());
  const auto unknown_type = static_cast<FrameType>(0x77);
  const WrongFrames cases[] = {
      {"DATA on stream 0", frame(kData, 0, 0, "data")},
      {"DATA on a stream that is not open", frame(kData, 0, 5, "data")},
      {"HEADERS on stream 0", head(0, kQuickHead)},
      {"HEADERS on an even stream", head(2, kQuickHead)},
      {"a too large frame", frame(unknown_type, 0, 1, std::string(16'385, 'x'))},
      {"CONTINUATION alone", frame(kContinuation, kEndHeaders, 1, hpack(kQuickHead))},
      {"PING between HEADERS and CONTINUATION",
       frame(kHeaders, 0, 1, hpack(kQuickHead)) + frame(kPing, 0, 0, kPong)},
      {"HPACK with an index outside its table", frame(kHeaders, kEndHeaders, 1, "\xff\xff\x7f")},
      {"SETTINGS of five bytes", frame(kSettings, 0, 0, "12345")},
      {"SETTINGS on a stream", frame(kSettings, 0, 1, "")},
      {"a window above 2^31", frame(kSettings, 0, 0, big_endian(4, 2) + big_endian(1U << 31, 4))},
      {"PING of seven bytes", frame(kPing, 0, 0, "1234567")},
      {"WINDOW_UPDATE of 0", frame(kWindowUpdate, 0, 0, big_endian(0, 4))},
      {"WINDOW_UPDATE above 2^31", frame(kWindowUpdate, 0, 0, big_endian(0x7fffffff, 4))},
      {"RST_STREAM of a stream that never was", frame(kResetStream, 0, 9, big_endian(8, 4))},
      {"PUSH_PROMISE", frame(static_cast<FrameType>(5), kEndHeaders, 1, big_endian(2, 4))},
  };
  for (const auto& [name, bytes] : cases) {
    SCOPED_TRACE(name);
    RawClient client(server.address());
    client.send(bytes);
    EXPECT_TRUE(client.receives(static_cast<FrameType>(7)));  // GOAWAY
    EXPECT_TRUE(client.ends());
    server.expect_alive();
  }
}

TEST(Http2FramesTest, WrongRequestsEndTheirStreamAlone) {
  ScriptedServer server(http2_options());
  Headers no_path = kQuickHead;
  no_path.erase(no_path.begin() + 2);
  const std::string begin = head(1, kQuickHead, /*is_last=*/false);
  const WrongFrames cases[] = {
      {"no :path", head(1, no_path)},
      {"two :path", head(1, with({{":path", "/quick"}}))},
      {"an empty :path", head(1, {{":method", "GET"}, {":scheme", "http"}, {":path", ""}})},
      {"an unknown pseudo-header", head(1, with({{":what", "x"}}))},
      {"a pseudo-header after others", head(1, {{"a", "b"}, {":method", "GET"}})},
      {"an upper-case name", head(1, with({{"Name", "x"}}))},
      {"a name with a blank", head(1, with({{"na me", "x"}}))},
      {"Connection", head(1, with({{"connection", "close"}}))},
      {"TE: gzip", head(1, with({{"te", "gzip"}}))},
      {"a body above its Content-Length",
       head(1, with({{"content-length", "1"}}), false) + frame(kData, kEndStream, 1, "12")},
      {"a body below its Content-Length",
       head(1, with({{"content-length", "3"}}), false) + frame(kData, kEndStream, 1, "12")},
      {"HEADERS in the body", begin + head(1, kQuickHead, /*is_last=*/false)},
      {"WINDOW_UPDATE above 2^31", begin + frame(kWindowUpdate, 0, 1, big_endian(0x7fffffff, 4))},
  };
  for (const auto& [name, bytes] : cases) {
    SCOPED_TRACE(name);
    RawClient client(server.address());
    client.send(bytes);
    EXPECT_TRUE(client.receives(kResetStream));
    EXPECT_TRUE(client.is_served());
    client.send(head(3, kQuickHead));
    EXPECT_TRUE(client.receives(kData, kEndStream));
    server.expect_alive();
  }
  EXPECT_EQ(server.counts().requests, 2 * static_cast<int>(std::size(cases)));
}

// Stream 3 comes after stream 5, so it counts as a stream that was closed earlier.
TEST(Http2FramesTest, HeadersOfAnEarlierStreamAreIgnored) {
  ScriptedServer server(http2_options());
  RawClient client(server.address());
  client.send(head(5, kQuickHead) + head(3, kQuickHead));
  EXPECT_TRUE(client.is_served());
  EXPECT_EQ(server.counts().requests, 1);
}

TEST(Http2FramesTest, TrailersOfARequestEndItsBody) {
  ScriptedServer server(http2_options());
  RawClient client(server.address());
  client.send(head(1, kQuickHead, false) + frame(kData, 0, 1, "body") + head(1, {{"a", "b"}}));
  EXPECT_TRUE(client.receives(kData, kEndStream));
  EXPECT_EQ(server.counts().requests, 1);
}

// One byte refers to a header of 4,000 bytes in HPACK's table, and nghttp2 checks it each time.
TEST(Http2FramesTest, TrailersOfManyReferencesToALongHeaderEndTheConnection) {
  ScriptedServer server(http2_options());
  RawClient client(server.address());
  const std::string long_header = "\x40\x01x" + hpack_length(4000) + std::string(4000, 'v');
  client.send(head(1, kQuickHead, /*is_last=*/false) +
              frame(kHeaders, kEndHeaders | kEndStream, 1, long_header + std::string(100, '\xbe')));
  EXPECT_FALSE(client.is_served());
  server.expect_alive();
  EXPECT_EQ(server.counts().requests, 1);
}

TEST(Http2FramesTest, ContinuationsWithoutEndEndTheConnection) {
  ScriptedServer server(http2_options());
  RawClient client(server.address());
  client.send(frame(kHeaders, 0, 1, hpack(kQuickHead)));
  while (client.send(frame(kContinuation, 0, 1, hpack({{"a", std::string(1000, 'b')}})))) {
  }
  EXPECT_TRUE(client.ends());
  server.expect_alive();
  EXPECT_EQ(server.counts().requests, 1);
}

TEST(Http2FramesTest, AHeadThatDoesNotEndIs408) {
  ScriptedServer server(http2_options({.body = milliseconds(50)}));
  RawClient client(server.address());
  client.send(frame(kHeaders, 0, 1, hpack(kQuickHead)));
  EXPECT_TRUE(client.receives(kData, kEndStream));
  client.send(frame(kContinuation, kEndHeaders, 1, ""));
  EXPECT_TRUE(client.is_served());
  EXPECT_EQ(server.counts().requests, 0);
}

TEST(Http2FramesTest, TenThousandSettingsDoNoHarm) {
  ScriptedServer server(http2_options());
  RawClient client(server.address());
  std::string settings;
  for (int i = 0; i < 10'000; ++i) settings += frame(kSettings, 0, 0, "");
  client.send(settings);
  server.expect_alive();
}

// Windows of 2^31 - 1 bytes and 0 alternate while a large answer waits.
TEST(Http2FramesTest, WindowsThatChangeAllTheTimeDoNoHarm) {
  ScriptedServer server(http2_options());
  RawClient client(server.address());
  client.send(head(1, kQuickHead));
  client.send(head(3, {{":method", "GET"}, {":scheme", "http"}, {":path", "/endless"}}));
  for (int i = 0; i < 200; ++i) {
    const uint32_t window = i % 2 == 0 ? 0 : 0x7fffffff;
    client.send(frame(kSettings, 0, 0, big_endian(4, 2) + big_endian(window, 4)));
  }
  EXPECT_TRUE(client.is_served());
  server.expect_alive();
}

// The client reads none of the RST_STREAM frames. Nor does it acknowledge our SETTINGS.
TEST(Http2FramesTest, RefusedStreamsWhoseResetsAreNotReadEndTheConnection) {
  ScriptedServer server(http2_options({.write = kPatience, .ping = kPatience, .lost = kPatience}));
  RawClient client(server.address());
  for (uint32_t stream = 1; client.send(head(stream, kQuickHead, /*is_last=*/false)); stream += 2) {
    ASSERT_LT(stream, 20'000'000U);
  }
  EXPECT_TRUE(becomes_true([&] { return server.server().connections() == 0; }));
  server.expect_alive();
}

TEST(Http2FramesTest, PingsAndSettingsWhoseAnswersAreNotReadEndTheConnection) {
  ScriptedServer server(http2_options({.write = kPatience, .ping = kPatience, .lost = kPatience}));
  for (const std::string& one : {frame(kPing, 0, 0, kPong), frame(kSettings, 0, 0, "")}) {
    const RawClient client(server.address());
    std::string frames;
    while (frames.size() < 16'000) frames += one;
    while (client.send(frames)) {
    }
    server.expect_alive();
  }
}

TEST(Http2FramesTest, UnfinishedRequestsOfOneConnectionAreCounted) {
  ScriptedServer server(http2_options({.all_body_bytes = 1 << 20}));  // One client may use half.
  Http2Client client(server.address());
  std::vector<int32_t> streams(250);
  for (int32_t& stream : streams) {
    stream = client.post("/echo", std::string(4000, 'x'), /*is_last=*/false);
  }
  EXPECT_TRUE(client.wait(client.get("/quick")).is_whole);  // The server has read all earlier ones.
  int refused = 0;
  for (const int32_t stream : streams) refused += client.answer(stream).status == 503;
  EXPECT_GE(refused, 250 - (512 << 10) / (4000 + 2048));  // A request's head counts, too.
  EXPECT_LT(refused, 250 - 40);
  for (const int32_t stream : streams) client.reset(stream);
  EXPECT_EQ(client.wait(client.get("/quick")).body, "quick");
}

}  // namespace
}  // namespace lockstep::http
