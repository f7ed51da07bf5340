// SPDX-License-Identifier: Apache-2.0
// Requests and answers of HTTP/2: any number on one connection, none disturbs another.
#include <algorithm>
#include <new>

#include "tests/coordinator/http/scripted_server.h"

namespace lockstep::http {
namespace {

using std::chrono::milliseconds;

const Headers kTrailers = {{"result", "7"}};
const std::map<std::string, std::string> kTrailersRead(kTrailers.begin(), kTrailers.end());

// A source with trailers, which a test feeds and may cut.
class TrailingSource final : public CountedSource {
 public:
  TrailingSource(Counts* counts, std::shared_ptr<Feed> feed,
                 std::shared_ptr<const std::atomic<bool>> is_cut)
      : CountedSource(counts), feed_(std::move(feed)), is_cut_(std::move(is_cut)) {}
  State read(std::string* bytes) override { return feed_->take(bytes); }
  Headers trailers() const override { return kTrailers; }
  bool is_cut() override { return *is_cut_; }

 private:
  const std::shared_ptr<Feed> feed_;
  const std::shared_ptr<const std::atomic<bool>> is_cut_;
};

class FailingSource final : public CountedSource {
 public:
  using CountedSource::CountedSource;
  State read(std::string* /*bytes*/) override { throw std::bad_alloc(); }
};

TEST(Http2StreamTest, RequestsOfOneConnectionAreAnsweredInAnyOrder) {
  ScriptedServer server(http2_options());
  Http2Client client(server.address());
  constexpr int kRequests = 100;
  std::vector<int32_t> streams;
  std::vector<std::shared_ptr<Exchange>> held;
  for (int i = 0; i < kRequests; ++i) {
    streams.push_back(client.post("/held", "body " + std::to_string(i)));
    held.push_back(server.take_held());
  }
  for (int i = kRequests - 1; i >= 0; --i) {
    held[i]->respond({.status = 400 + i, .body = "answer to " + held[i]->request().body});
    EXPECT_EQ(client.wait(streams[i]).body, "answer to body " + std::to_string(i));
    EXPECT_EQ(client.answer(streams[i]).status, 400 + i);
  }
}

TEST(Http2StreamTest, TheRequestHasItsMethodPathQueryAndHeaders) {
  ScriptedServer server(http2_options());
  Http2Client client(server.address());
  const int32_t stream = client.post("/held?a=b?c", "body", true, {{"x-name", "value"}});
  const std::shared_ptr<Exchange> exchange = server.take_held();
  EXPECT_EQ(exchange->request().method, "POST");
  EXPECT_EQ(exchange->request().path, "/held");
  EXPECT_EQ(exchange->request().query, "a=b?c");
  EXPECT_EQ(exchange->request().header("X-Name"), "value");
  EXPECT_EQ(exchange->request().header("host"), "test");
  EXPECT_EQ(exchange->request().body, "body");
  exchange->respond({.headers = {{"X-Answer", "a\r\nb"}}});
  const Http2Answer answer = client.wait(stream);
  EXPECT_EQ(answer.headers.at("x-answer"), "a  b");  // No line ends, and names are lower case.
}

TEST(Http2StreamTest, AnAnswerHasItsTrailersWithAndWithoutABody) {
  ScriptedServer server(http2_options());
  Http2Client client(server.address());
  for (const std::string body : {"", "body"}) {
    const int32_t stream = client.get("/held");
    server.take_held()->respond({.body = body, .trailers = kTrailers});
    const Http2Answer answer = client.wait(stream);
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.body, body);
    EXPECT_EQ(answer.trailers, kTrailersRead);
    EXPECT_TRUE(answer.is_whole);
  }
}

TEST(Http2StreamTest, AStreamedAnswerArrivesPieceByPieceAndThenItsTrailers) {
  ScriptedServer server(http2_options());
  Http2Client client(server.address());
  const int32_t stream = client.get("/held");
  const std::shared_ptr<Exchange> exchange = server.take_held();
  const auto feed = std::make_shared<Feed>();
  exchange->stream({}, std::make_unique<TrailingSource>(&server.counts(), feed,
                                                        std::make_shared<std::atomic<bool>>()));
  std::string expected;
  for (int i = 0; i < 20; ++i) {
    feed->say("piece ");
    exchange->wake();
    expected += "piece ";
    EXPECT_TRUE(client.read_until([&] { return client.answer(stream).body == expected; }));
    EXPECT_FALSE(client.answer(stream).is_whole);
  }
  feed->say("end", /*end=*/true);
  exchange->wake();
  const Http2Answer answer = client.wait(stream);
  EXPECT_EQ(answer.body, expected + "end");
  EXPECT_EQ(answer.trailers, kTrailersRead);
  EXPECT_TRUE(becomes_true([&] { return server.counts().sources == 0; }));
}

TEST(Http2StreamTest, ACutSourceEndsByTrailersThoughTheWindowsAreClosed) {
  ScriptedServer server(http2_options());
  for (const uint32_t window : {0, 1, 99, 100, 101, 150}) {
    SCOPED_TRACE(window);
    Http2Client client(server.address(), window);
    const int32_t stream = client.get("/held");
    const std::shared_ptr<Exchange> exchange = server.take_held();
    const auto feed = std::make_shared<Feed>();
    const auto is_cut = std::make_shared<std::atomic<bool>>(false);
    exchange->wake();  // No effect yet.
    exchange->stream({}, std::make_unique<TrailingSource>(&server.counts(), feed, is_cut));
    for (int i = 0; i < 3; ++i) {
      feed->say(std::string(100, 'x'));
      exchange->wake();
    }
    EXPECT_TRUE(client.read_until([&] { return client.answer(stream).body.size() == window; }));
    EXPECT_FALSE(client.answer(stream).is_whole);
    *is_cut = true;
    exchange->wake();
    EXPECT_EQ(client.wait(stream).trailers, kTrailersRead);
    EXPECT_TRUE(client.answer(stream).is_whole);
    EXPECT_TRUE(becomes_true([&] { return server.counts().sources == 0; }));
    client.open_windows();
    EXPECT_EQ(client.wait(client.get("/quick")).body, "quick");
  }
}

TEST(Http2StreamTest, ABodyAboveTheLimitIs413AndTheConnectionGoesOn) {
  ScriptedServer server(http2_options({.read = {.body_bytes = 1000}}));
  Http2Client client(server.address());
  for (int i = 0; i < 5; ++i) {  // Together more than the connection's window.
    const Http2Answer answer = client.wait(client.post("/echo", std::string(1 << 20, 'x')));
    EXPECT_EQ(answer.status, 413);
    EXPECT_NE(answer.body.find("the body: must have at most 1000 bytes"), std::string::npos);
  }
  EXPECT_EQ(client.wait(client.post("/echo", std::string(1001, 'x'))).status, 413);
  EXPECT_EQ(client.wait(client.post("/echo", std::string(1000, 'x'))).body.size(), 1000);
  EXPECT_EQ(server.counts().requests, 1);
}

TEST(Http2StreamTest, AHeadAboveTheLimitIs431AndTheConnectionGoesOn) {
  ScriptedServer server(http2_options());
  Http2Client client(server.address());
  const Http2Answer answer = client.wait(client.get("/quick", {{"x", std::string(16 << 10, 'x')}}));
  EXPECT_EQ(answer.status, 431);
  EXPECT_NE(answer.body.find("headers: must have at most 16384 bytes"), std::string::npos);
  EXPECT_EQ(client.wait(client.get("/quick", {{"x", std::string(16'000, 'x')}})).body, "quick");
}

TEST(Http2StreamTest, ABodyThatDoesNotEndIs408AndOthersGoOn) {
  ScriptedServer server(http2_options({.body = milliseconds(50)}));
  Http2Client client(server.address());
  const int32_t held = client.get("/held");
  const int32_t late = client.post("/echo", "begin", /*is_last=*/false);
  EXPECT_EQ(client.wait(late).status, 408);
  EXPECT_EQ(client.wait(client.get("/quick")).body, "quick");
  server.take_held()->respond({.body = "held"});
  EXPECT_EQ(client.wait(held).body, "held");
}

TEST(Http2StreamTest, BodiesOfAllStreamsAreBoundedTogetherUntilTheyEnd) {
  ScriptedServer server(http2_options({.all_body_bytes = 1 << 20}));  // One client may use half.
  Http2Client client(server.address());
  const std::string body(100 << 10, 'x');  // Takes up to twice its size in memory.
  std::vector<int32_t> streams(6);
  for (int32_t& stream : streams) stream = client.post("/echo", body, /*is_last=*/false);
  const auto refused = [&] {
    return std::ranges::find_if(streams, [&](int32_t id) { return client.answer(id).is_whole; });
  };
  ASSERT_TRUE(client.read_until([&] { return refused() != streams.end(); }));
  EXPECT_EQ(client.answer(*refused()).status, 503);
  EXPECT_EQ(client.answer(*refused()).headers.at("retry-after"), "1");
  for (int i = 0; i < 2; ++i) EXPECT_EQ(client.answer(streams[i]).status, 0);
  client.send_body(streams[0], "", /*is_last=*/true);
  EXPECT_EQ(client.wait(streams[0]).body.size(), body.size());
  for (int i = 1; i < 5; ++i) client.reset(streams[i]);
  for (int i = 0; i < 10; ++i) {
    const int32_t stream = client.post("/echo", body, /*is_last=*/false);
    client.send_body(stream, "", /*is_last=*/true);
    EXPECT_EQ(client.wait(stream).body.size(), body.size());
  }
}

// The answer may last for hours: the body must not stay in memory.
TEST(Http2StreamTest, AnAnswerFreesTheBodyOfItsRequest) {
  ScriptedServer server(http2_options());
  Http2Client client(server.address());
  const int32_t stream = client.post("/held", std::string(100 << 10, 'x'));
  const std::shared_ptr<Exchange> exchange = server.take_held();
  EXPECT_EQ(exchange->request().body.size(), 100 << 10);
  server.begin_stream(exchange);
  EXPECT_TRUE(exchange->request().body.empty());
  client.reset(stream);
}

TEST(Http2StreamTest, LargeAnswersThatAreNotReadAre503UntilTheyAreRead) {
  ScriptedServer server(http2_options({.all_answer_bytes = 1 << 20, .write = kPatience}));
  Http2Client client(server.address(), /*window=*/1000);
  const std::string body(200 << 10, 'x');
  std::vector<int32_t> streams(3);
  const auto ask = [&](Http2Client& from) {
    const int32_t stream = from.get("/held");
    server.take_held()->respond({.body = body});
    from.read_until([&] { return from.answer(stream).status != 0; });
    return stream;
  };
  for (int32_t& stream : streams) stream = ask(client);
  EXPECT_EQ(client.answer(streams[0]).status, 200);
  EXPECT_EQ(client.answer(streams[1]).status, 200);
  EXPECT_EQ(client.answer(streams[2]).status, 503);
  EXPECT_EQ(client.wait(client.get("/quick")).body, "quick");  // Small answers are sent.
  client.open_windows();
  for (int i = 0; i < 2; ++i) EXPECT_EQ(client.wait(streams[i]).body.size(), body.size());
  EXPECT_EQ(client.answer(ask(client)).status, 200);
}

TEST(Http2StreamTest, AStreamWhoseAnswerIsNotTakenIsResetAndOthersGoOn) {
  ScriptedServer server(http2_options({.write = milliseconds(50)}));
  for (const uint32_t window : {0, 1, 5, 60'000}) {
    SCOPED_TRACE(window);
    Http2Client client(server.address(), window);
    const int32_t other = client.get("/held");
    const std::shared_ptr<Exchange> exchange = server.take_held();
    const int32_t endless = client.get("/endless");
    EXPECT_EQ(client.wait(endless).reset, 11);  // ENHANCE_YOUR_CALM
    EXPECT_EQ(client.answer(endless).body.size(), window);
    EXPECT_TRUE(becomes_true([&] { return server.counts().sources == 0; }));
    const int32_t whole = client.get("/held");
    server.take_held()->respond({.body = std::string(100'000, 'x')});
    EXPECT_EQ(client.wait(whole).reset, 11);
    exchange->respond({.status = 204});
    EXPECT_EQ(client.wait(other).status, 204);
  }
}

TEST(Http2StreamTest, AStreamThatWaitsForItsSourceIsNotReset) {
  ScriptedServer server(http2_options({.write = milliseconds(20)}));
  Http2Client client(server.address());
  const int32_t stream = client.get("/held");
  const std::shared_ptr<Exchange> exchange = server.take_held();
  const std::shared_ptr<Feed> feed = server.begin_stream(exchange);
  Http2Client slow(server.address(), /*window=*/0);
  EXPECT_EQ(slow.wait(slow.get("/endless")).reset, 11);  // By now the limit for writing is over.
  feed->say("late", /*end=*/true);
  exchange->wake();
  EXPECT_EQ(client.wait(stream).body, "late");
}

TEST(Http2StreamTest, AResetStreamsExchangeIsGoneAndOthersGoOn) {
  ScriptedServer server(http2_options());
  Http2Client client(server.address());
  const int32_t reset = client.get("/held");
  const std::shared_ptr<Exchange> gone = server.take_held();
  const int32_t streamed = client.get("/stream");
  const std::shared_ptr<Exchange> streaming = server.take_held();
  server.begin_stream(streaming);
  EXPECT_TRUE(becomes_true([&] { return server.counts().sources == 1; }));
  const int32_t kept = client.get("/held");
  client.reset(reset);
  client.reset(streamed);
  EXPECT_TRUE(becomes_true([&] { return server.counts().gone == 2; }));
  EXPECT_TRUE(becomes_true([&] { return server.counts().sources == 0; }));
  gone->respond({.body = "too late"});
  streaming->wake();
  server.take_held()->respond({.body = "kept"});
  EXPECT_EQ(client.wait(kept).body, "kept");
  EXPECT_EQ(client.answer(reset).status, 0);
}

TEST(Http2StreamTest, AClosedConnectionsExchangesAreGone) {
  ScriptedServer server(http2_options());
  {
    Http2Client client(server.address());
    client.get("/held");
    client.get("/held");
    server.take_held();
    server.begin_stream(server.take_held());
    EXPECT_TRUE(becomes_true([&] { return server.counts().sources == 1; }));
  }
  EXPECT_TRUE(becomes_true([&] { return server.counts().sources == 0; }));
  EXPECT_TRUE(becomes_true([&] { return server.server().connections() == 0; }));
}

TEST(Http2StreamTest, AnExchangeThatIsNotAnsweredResetsItsStreamAlone) {
  ScriptedServer server(http2_options());
  Http2Client client(server.address());
  EXPECT_EQ(client.wait(client.get("/dropped")).reset, 2);  // INTERNAL_ERROR
  EXPECT_EQ(client.wait(client.get("/quick")).body, "quick");
}

TEST(Http2StreamTest, AStreamedBodyArrivesInPiecesWithItsEnd) {
  ScriptedServer server(http2_options({.body = milliseconds(20)}));
  Http2Client client(server.address());
  const int32_t stream = client.post("/pieces/endless", "", /*is_last=*/false);
  std::string expected;
  for (int i = 0; i < 20; ++i) {
    const std::string piece = "piece " + std::to_string(i);
    client.send_body(stream, piece, /*is_last=*/false);
    expected += piece;
    EXPECT_TRUE(client.read_until([&] { return client.answer(stream).body == expected; }));
  }
  // The body has no limit, and this one no deadline.
  EXPECT_EQ(client.wait(client.post("/echo", "begin", /*is_last=*/false)).status, 408);
  client.send_body(stream, std::string(5 << 20, 'x'), /*is_last=*/false);
  EXPECT_TRUE(client.read_until(
      [&] { return client.answer(stream).body.size() == expected.size() + (5 << 20); }));
  EXPECT_FALSE(client.answer(stream).is_whole);
  client.send_body(stream, "end", /*is_last=*/true);
  EXPECT_TRUE(client.wait(stream).body.ends_with("xend"));
  EXPECT_TRUE(client.answer(stream).is_whole);
}

TEST(Http2StreamTest, AStreamedBodyThatDoesNotEndResetsItsStream) {
  ScriptedServer server(http2_options({.body = milliseconds(20)}));
  Http2Client client(server.address());
  const int32_t late = client.post("/pieces", "piece", /*is_last=*/false);
  EXPECT_EQ(client.wait(late).reset, 8);  // CANCEL
  EXPECT_TRUE(becomes_true([&] { return server.counts().sources == 0; }));
  const int32_t whole = client.post("/pieces", "piece", /*is_last=*/true);
  EXPECT_EQ(client.wait(whole).body, "piece");
}

TEST(Http2StreamTest, ASourceThatRunsOutOfMemoryEndsItsConnectionAlone) {
  ScriptedServer server(http2_options());
  Http2Client other(server.address());
  const int32_t kept = other.get("/held");
  const std::shared_ptr<Exchange> exchange = server.take_held();
  Http2Client client(server.address());
  const int32_t stream = client.get("/held");
  server.take_held()->stream({}, std::make_unique<FailingSource>(&server.counts()));
  EXPECT_FALSE(client.wait(stream).is_whole);
  EXPECT_TRUE(becomes_true([&] { return server.counts().sources == 0; }));
  exchange->respond({.body = "kept"});
  EXPECT_EQ(other.wait(kept).body, "kept");
}

}  // namespace
}  // namespace lockstep::http
