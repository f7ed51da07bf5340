// SPDX-License-Identifier: Apache-2.0
// How requests are read from bytes, cut at any place, and which are refused.
#include "coordinator/http/request_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <vector>

namespace lockstep::http {
namespace {

using State = RequestReader::State;

constexpr ReadLimits kLimits = {.header_bytes = 400, .body_bytes = 1000};

// The result of a connection's bytes as text: one line per request or refusal.
std::vector<std::string> outcome_of(RequestReader& reader) {
  std::vector<std::string> all;
  while (reader.state() == State::kWhole) {
    const Request request = reader.take();
    std::string text = request.method + " " + request.path + "?" + request.query;
    for (const auto& [name, value] : request.headers) text += "|" + name + "=" + value;
    all.push_back(text + "|" + request.body + (reader.keeps_alive() ? "" : "|close"));
    reader.feed({});
  }
  if (reader.state() == State::kRefused) {
    all.push_back("refused " + std::to_string(reader.refusal().status));
  }
  return all;
}

std::vector<std::string> read_all(std::string_view bytes, const std::vector<size_t>& cuts = {}) {
  RequestReader reader(kLimits);
  std::vector<std::string> all;
  size_t begin = 0;
  for (size_t i = 0; i <= cuts.size(); ++i) {
    const size_t end = i < cuts.size() ? cuts[i] : bytes.size();
    reader.feed(bytes.substr(begin, end - begin));
    for (std::string& one : outcome_of(reader)) all.push_back(std::move(one));
    if (reader.state() == State::kRefused) break;
    begin = end;
  }
  return all;
}

std::vector<size_t> before_every_byte(std::string_view bytes) {
  std::vector<size_t> cuts(bytes.size());
  std::iota(cuts.begin(), cuts.end(), size_t{0});
  return cuts;
}

// The status of the refusal, or 0.
int status_of(const std::string& bytes) {
  RequestReader reader(kLimits);
  reader.feed(bytes);
  return reader.state() == State::kRefused ? reader.refusal().status : 0;
}

std::string with_head(const std::string& lines) {
  return "POST /a HTTP/1.1\r\nHost: x\r\n" + lines + "\r\n";
}

TEST(RequestReaderTest, PathQueryHeadersAndBodyAreRead) {
  RequestReader reader(kLimits);
  EXPECT_EQ(reader.state(), State::kIdle);
  EXPECT_EQ(reader.feed("POST /v1/a%20b?x=%31 HTTP/1.1\r\nhost: h:8\r\nX-Y:  z \r\n"
                        "Content-Length: 5\r\n\r\nhel"),
            State::kBody);
  EXPECT_EQ(reader.feed("lo"), State::kWhole);
  EXPECT_TRUE(reader.keeps_alive());
  EXPECT_TRUE(reader.is_http_1_1());
  const Request request = reader.take();
  EXPECT_EQ(request.method, "POST");
  EXPECT_EQ(request.path, "/v1/a b");
  EXPECT_EQ(request.query, "x=%31");
  EXPECT_EQ(request.header("HOST"), "h:8");
  EXPECT_EQ(request.header("x-y"), "z");
  EXPECT_EQ(request.header("absent"), "");
  EXPECT_EQ(request.body, "hello");
  EXPECT_EQ(reader.state(), State::kIdle);
}

TEST(RequestReaderTest, ACutAtAnyByteChangesNothing) {
  const std::string good =
      "GET /1 HTTP/1.1\r\nHost: x\r\n\r\n"
      "POST /2?q HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody"
      "\r\nPOST /3 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
      "3;name=\"value\"\r\nabc\r\n0a\r\n0123456789\r\n0\r\nTrailer: t\r\n\r\n"
      "GET http://x/4 HTTP/1.0\r\n\r\n";
  const std::string bad =
      "POST /5 HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n"
      "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
  const std::string all = good + bad;
  const std::vector<std::string> whole = read_all(all);
  ASSERT_EQ(whole.size(), 5u);
  EXPECT_EQ(whole[2], "POST /3?|Host=x|Transfer-Encoding=chunked|abc0123456789");
  EXPECT_EQ(whole[3], "GET /4?||close");
  EXPECT_EQ(whole[4], "refused 400");
  for (size_t cut = 0; cut <= all.size(); ++cut) EXPECT_EQ(read_all(all, {cut}), whole) << cut;
  EXPECT_EQ(read_all(all, before_every_byte(all)), whole);
}

TEST(RequestReaderTest, ABodyOverItsOwnBoundIsRefused) {
  const std::string chunked = with_head("Transfer-Encoding: chunked\r\n");
  for (const std::string& head : {with_head("Content-Length: 5\r\n"), chunked}) {
    RequestReader reader(kLimits);
    ASSERT_EQ(reader.feed(head), State::kBody);
    EXPECT_EQ(reader.bound_body(5), State::kBody);
    EXPECT_EQ(reader.feed(head == chunked ? "5\r\n12345\r\n0\r\n\r\n" : "12345"), State::kWhole);
  }
  RequestReader declared(kLimits), longer(kLimits), received(kLimits);
  declared.feed(with_head("Content-Length: 6\r\n"));
  EXPECT_EQ(declared.bound_body(5), State::kRefused);
  EXPECT_EQ(declared.refusal().status, 413);
  longer.feed(chunked);
  longer.bound_body(5);
  EXPECT_EQ(longer.feed("6\r\n123456"), State::kRefused);
  EXPECT_EQ(longer.refusal().status, 413);
  received.feed(chunked + "6\r\n123456");
  EXPECT_EQ(received.bound_body(5), State::kRefused);
}

TEST(RequestReaderTest, FoldedTrailersAreRefused) {
  for (const char* fold : {" ", "\t"}) {
    const std::string request = with_head("Transfer-Encoding: chunked\r\n") +
                                "1\r\na\r\n0\r\na: b\r\n" + fold + "c\r\n\r\n";
    EXPECT_THAT(read_all(request), ::testing::ElementsAre("refused 400"));
  }
}

TEST(RequestReaderTest, ATruncatedRequestIsNeverComplete) {
  const std::string head = with_head("Content-Length: 10\r\n");
  for (const std::string& request :
       {head + "0123456789",
        with_head("Transfer-Encoding: chunked\r\n") + "2\r\nab\r\n0\r\n\r\n"}) {
    for (size_t length = 0; length < request.size(); ++length) {
      RequestReader reader(kLimits);
      reader.feed(request.substr(0, length));
      EXPECT_NE(reader.state(), State::kWhole) << length;
      EXPECT_NE(reader.state(), State::kRefused) << length;
    }
    EXPECT_EQ(read_all(request).size(), 1u);
  }
}

TEST(RequestReaderTest, AnAmbiguousRequestIsRefused) {
  for (const char* lines : {
           "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n",
           "Transfer-Encoding: chunked\r\nContent-Length: 1\r\n",
           "Content-Length: 1\r\nContent-Length: 1\r\n",
           "Content-Length: 1\r\nContent-Length: 2\r\n",
           "Content-Length: 1, 1\r\n",
           "Content-Length: +1\r\n",
           "Content-Length: -1\r\n",
           "Content-Length: 0x1\r\n",
           "Content-Length: 1 1\r\n",
           "Content-Length: \r\n",
           "Content-Length: 99999999999999999999999\r\n",
           "Content-Length : 1\r\n",
           "Host: y\r\n",
           "X: a\r\n folded\r\n",
           "X: a\r\n\tfolded\r\n",
           "X: a\nY: b\r\n",
           "X: a\rY: b\r\n",
           "X: a\x01z\r\n",
           "X: a\x7f\r\n",
           "X y: a\r\n",
           ": a\r\n",
           "no colon\r\n",
       }) {
    EXPECT_EQ(status_of(with_head(lines)), 400) << lines;
  }
  EXPECT_EQ(status_of(with_head(std::string("X: a\0b\r\n", 8))), 400);
  for (const char* encoding : {"gzip", "chunked, gzip", "gzip, chunked", "xchunked", "identity",
                               "chunked, chunked", "\"chunked\"", ""}) {
    EXPECT_EQ(status_of(with_head("Transfer-Encoding: " + std::string(encoding) + "\r\n")), 501)
        << encoding;
  }
  EXPECT_EQ(status_of("POST /a HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"), 400);
}

TEST(RequestReaderTest, ACompressedBodyIsRefusedWith415) {
  for (const char* encoding : {"gzip", "br", "zstd", "gzip, identity", ""}) {
    RequestReader reader(kLimits);
    reader.feed(
        with_head("Content-Length: 3\r\ncontent-encoding: " + std::string(encoding) + "\r\n"));
    ASSERT_EQ(reader.state(), State::kRefused) << encoding;
    EXPECT_EQ(reader.refusal().status, 415) << encoding;
    EXPECT_NE(reader.refusal().message.find(encoding), std::string::npos);
    EXPECT_EQ(reader.refusal().headers, (Headers{{"Accept-Encoding", "identity"}}));
  }
  EXPECT_EQ(status_of(with_head("Content-Length: 3\r\nContent-Encoding: Identity\r\n")), 0);
}

TEST(RequestReaderTest, RequestLinesAreReadStrictly) {
  for (const char* line :
       {"GET  / HTTP/1.1", " GET / HTTP/1.1", "GET / HTTP/1.1 ", "GET /", "GET / http/1.1",
        "GET / HTTP/1.10", "G(T / HTTP/1.1", "GET a HTTP/1.1", "GET * HTTP/1.1", "GET /# HTTP/1.1",
        "GET /%0 HTTP/1.1", "GET /%zz HTTP/1.1", "GET /%00 HTTP/1.1", "GET /\xc3\xa4 HTTP/1.1",
        "CONNECT host:80 HTTP/1.1", "GET http:// HTTP/1.1", "GET http://user@host/ HTTP/1.1",
        "GET http://host# HTTP/1.1", "GET ftp://host/ HTTP/1.1"}) {
    EXPECT_EQ(status_of(std::string(line) + "\r\nHost: x\r\n\r\n"), 400) << line;
  }
  EXPECT_EQ(status_of("GET / HTTP/2.0\r\nHost: x\r\n\r\n"), 505);
  EXPECT_EQ(status_of("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 505);
  EXPECT_EQ(status_of(std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\n", 12)), 400);
  EXPECT_EQ(read_all("GET http://h:1?q HTTP/1.1\r\nHost: x\r\n\r\n")[0], "GET /?q|Host=x|");
  EXPECT_EQ(read_all("OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n")[0], "OPTIONS *?|Host=x|");
}

TEST(RequestReaderTest, AHostMustBeValidAndAppearOnce) {
  EXPECT_EQ(status_of("GET / HTTP/1.1\r\n\r\n"), 400);
  EXPECT_EQ(status_of("GET / HTTP/1.0\r\n\r\n"), 0);
  for (const char* host : {"a/b", "a b", "user@a", "a?b", "a#b", "\xc3\xa4", "a\\b"}) {
    EXPECT_EQ(status_of("GET / HTTP/1.1\r\nHost: " + std::string(host) + "\r\n\r\n"), 400) << host;
  }
  for (const char* host : {"", "a", "a.b:80", "[::1]:80", "127.0.0.1"}) {
    EXPECT_EQ(status_of("GET / HTTP/1.1\r\nHost: " + std::string(host) + "\r\n\r\n"), 0) << host;
  }
}

TEST(RequestReaderTest, ABodyAboveItsLimitIsRefusedBeforeItIsRead) {
  EXPECT_EQ(status_of(with_head("Content-Length: 1001\r\n")), 413);
  EXPECT_EQ(status_of(with_head("Content-Length: 1000\r\n")), 0);
  const std::string chunked = with_head("Transfer-Encoding: chunked\r\n");
  EXPECT_EQ(status_of(chunked + "3e9\r\n"), 413);
  EXPECT_EQ(status_of(chunked + "3e8\r\n"), 0);
  std::string many = chunked;
  for (int i = 0; i < 1000; ++i) many += "1\r\nx\r\n";
  EXPECT_EQ(status_of(many), 0);
  EXPECT_EQ(status_of(many + "1\r\n"), 413);
}

TEST(RequestReaderTest, HeadersAboveTheirLimitAreRefused) {
  const size_t bytes = with_head("").size();
  const auto padded = [&](size_t size) {
    return with_head("X: " + std::string(size - bytes - 5, 'x') + "\r\n");
  };
  EXPECT_EQ(status_of(padded(400)), 0);
  EXPECT_EQ(status_of(padded(401)), 431);
  EXPECT_EQ(status_of("GET /" + std::string(400, 'x')), 431);  // A line without an end.
  const std::string chunked = with_head("Transfer-Encoding: chunked\r\n");
  EXPECT_EQ(status_of(chunked + "1;" + std::string(400, 'x')), 431);
  EXPECT_EQ(status_of(chunked + "0\r\nX: " + std::string(400, 'x')), 431);
}

TEST(RequestReaderTest, LimitsHoldWhetherBytesComeAtOnceOrOneByOne) {
  const std::string chunked = with_head("Transfer-Encoding: chunked\r\n");
  // With 399 bytes of padding, the part that kLimits bounds has 400 to 404 bytes.
  for (size_t padding = 380; padding < 420; ++padding) {
    const std::string pad(padding, 'x');
    for (const std::string& bytes : {
             "GET /" + pad + "\n",
             with_head("X: " + pad.substr(100) + "\n"),
             chunked + "1;" + pad + "\r\na\r\n0\r\n\r\n",
             chunked + "1\r\na\r\n1;" + pad + "\r\na\r\n0\r\n\r\n",
             chunked + "1;" + pad + "\rx",
             chunked + "1\r\na\r\n0;" + pad + "\r\n\r\n",
             chunked + "1\r\na\r\n0\r\nX: " + pad + "\r\n\r\n",
         }) {
      EXPECT_EQ(read_all(bytes, before_every_byte(bytes)), read_all(bytes)) << padding;
    }
  }
}

TEST(RequestReaderTest, QuotedTextOfAChunkExtensionEndsWithItsLine) {
  const std::string chunked = with_head("Transfer-Encoding: chunked\r\n");
  for (const char* line : {"2;x=\"y%", "2;x=\"y\\\"", "0;x=\"", "2;\""}) {
    const std::string bytes = chunked + line + "\r\nab\r\n0;\"\r\n\r\n";
    EXPECT_EQ(status_of(bytes), 400) << line;
    EXPECT_EQ(read_all(bytes, before_every_byte(bytes)), read_all(bytes)) << line;
  }
  EXPECT_EQ(read_all(chunked + "2;x=\"y;z\"\r\nab\r\n0;q=\"\"\r\nT: \"\r\n\r\n").size(), 1u);
}

TEST(RequestReaderTest, BadChunksAreRefused) {
  for (const char* body : {"x\r\n", "-1\r\n", "1 \r\nx\r\n0\r\n\r\n", "1\r\nxy\r\n", "1\nx\r\n",
                           "ffffffffffffffffff\r\n", "1;\"\r\nx\r\n", "\r\n", "0x1\r\nx\r\n",
                           "1\r\nx\r\n0\r\nContent-Length: 5\r\n\r\n"}) {
    const int status = status_of(with_head("Transfer-Encoding: chunked\r\n") + body + "\r\n\r\n");
    EXPECT_TRUE(status == 400 || status == 413) << body << ": " << status;
  }
}

TEST(RequestReaderTest, LinesOfABodyMayHaveAnyEnding) {
  const std::string body = "{\n \"a\": 1\n}\r\r\n\r\n";
  const std::string request =
      with_head("Content-Length: " + std::to_string(body.size()) + "\r\n") + body;
  EXPECT_TRUE(read_all(request + request).at(1).ends_with(body));
}

TEST(RequestReaderTest, ContinueIsAskedForOnceAndOnlyWithABody) {
  RequestReader reader(kLimits);
  reader.feed(with_head("Expect: 100-continue\r\nContent-Length: 2\r\n"));
  EXPECT_TRUE(reader.take_continue());
  EXPECT_FALSE(reader.take_continue());
  reader.feed("ab");
  EXPECT_EQ(reader.state(), State::kWhole);
  reader.take();
  reader.feed(with_head("Expect: 100-continue\r\n"));
  EXPECT_EQ(reader.state(), State::kWhole);
  EXPECT_FALSE(reader.take_continue());
  EXPECT_EQ(status_of(with_head("Expect: a-cake\r\n")), 417);
}

TEST(RequestReaderTest, ConnectionsAreKeptAsTheClientAsks) {
  const auto keeps = [](const std::string& bytes) {
    RequestReader reader(kLimits);
    EXPECT_EQ(reader.feed(bytes), State::kWhole) << bytes;
    return reader.keeps_alive();
  };
  EXPECT_TRUE(keeps(with_head("")));
  EXPECT_FALSE(keeps(with_head("Connection: close\r\n")));
  EXPECT_FALSE(keeps(with_head("Connection: x, Close\r\n")));
  EXPECT_FALSE(keeps("GET / HTTP/1.0\r\n\r\n"));
  EXPECT_FALSE(keeps("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"));
}

TEST(RequestReaderTest, MutatedRequestsGiveTheSameAtAnyCut) {
  constexpr uint32_t kSeed = 7;
  SCOPED_TRACE(kSeed);
  std::mt19937 draw(kSeed);
  const std::string base = with_head("Transfer-Encoding: chunked\r\n") +
                           "3\r\nabc\r\n0\r\nT: t\r\n\r\n" +
                           with_head("Content-Length: 3\r\nExpect: 100-continue\r\n") + "abc";
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes = base;
    for (uint32_t i = draw() % 3 + 1; i > 0; --i) {
      constexpr std::string_view kBytes("\r\n\0 :;0159aZ,\xff\t", 15);
      const size_t at = draw() % bytes.size();
      if (draw() % 2 == 0)
        bytes[at] = kBytes[draw() % kBytes.size()];
      else if (draw() % 2 == 0)
        bytes.erase(at, draw() % 4);
      else
        bytes.insert(at, 1, kBytes[draw() % kBytes.size()]);
    }
    std::vector<size_t> cuts;
    for (size_t at = draw() % 40; at < bytes.size(); at += draw() % 40) cuts.push_back(at);
    ASSERT_EQ(read_all(bytes, cuts), read_all(bytes)) << ::testing::PrintToString(bytes);
  }
}

}  // namespace
}  // namespace lockstep::http
