// SPDX-License-Identifier: Apache-2.0
// Invalid bytes on a socket: each client gets one refusal, and the server goes on.
#include <random>

#include "tests/coordinator/http/scripted_server.h"

namespace lockstep::http {
namespace {

TEST(HostileHttpTest, ARequestCutAtAnyByteIsServedWhenItIsWhole) {
  ScriptedServer server;
  HttpClient client(server.address());
  const std::string request =
      "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
  for (size_t cut = 1; cut < request.size(); ++cut) {
    client.send(std::string_view(request).substr(0, cut));
    if (cut % 8 == 0) server.expect_alive();  // Meanwhile the server reads the first part.
    client.send(std::string_view(request).substr(cut));
    EXPECT_EQ(client.read().body, "abc") << cut;
  }
}

TEST(HostileHttpTest, AClientThatGoesAfterAnyByteLeavesNothing) {
  ScriptedServer server;
  const std::string request = http_request("POST", "/held", "", "body");
  for (size_t cut = 0; cut <= request.size(); ++cut) {
    HttpClient(server.address()).send(request.substr(0, cut));
  }
  EXPECT_TRUE(becomes_true([&] { return server.server().connections() == 0; }));
  server.expect_alive();
}

TEST(HostileHttpTest, SmuggledBytesAreRefusedAndNeverReadAsARequest) {
  ScriptedServer server;
  const std::string hidden = "GET /held HTTP/1.1\r\nHost: x\r\n\r\n";
  const std::string head = "POST /echo HTTP/1.1\r\nHost: x\r\n";
  for (const std::string& lines : {
           "Content-Length: " + std::to_string(hidden.size()) +
               "\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
           std::string("Content-Length: 0\r\nContent-Length: 33\r\n\r\n"),
           std::string("Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"),
           std::string("Transfer-Encoding: gzip\r\n\r\n"),
           std::string("Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n"),
           std::string("Transfer-Encoding: chunked\r\n\r\n0\n\r\n"),
           std::string("Transfer-Encoding:\x0b"
                       "chunked\r\n\r\n0\r\n\r\n"),
           std::string("X: y\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
           std::string("Content-Length:\r\n 0\r\n\r\n"),
       }) {
    HttpClient client(server.address());
    client.send(head + lines + hidden);
    const HttpAnswer answer = client.read();
    EXPECT_GE(answer.status, 400) << lines;
    EXPECT_EQ(answer.headers.at("connection"), "close") << lines;
    EXPECT_NE(answer.body.find("\"error\""), std::string::npos) << lines;
    EXPECT_TRUE(client.ends()) << lines;
  }
  EXPECT_EQ(server.counts().requests, 0);
}

TEST(HostileHttpTest, OtherProtocolsAreRefused) {
  ScriptedServer server;
  HttpClient http2(server.address());
  http2.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
  EXPECT_EQ(http2.read().status, 505);
  HttpClient tls(server.address());
  tls.send(std::string("\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00\r\n\r\n", 14));
  EXPECT_EQ(tls.read().status, 400);
  server.expect_alive();
}

TEST(HostileHttpTest, ABodyOfManySmallChunksIsRead) {
  ScriptedServer server;
  HttpClient client(server.address());
  std::string request = "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
  constexpr int kChunks = 100'000;
  for (int i = 0; i < kChunks; ++i) request += "1\r\nx\r\n";
  client.send(request + "0\r\n\r\n");
  EXPECT_EQ(client.read().body, std::string(kChunks, 'x'));
}

TEST(HostileHttpTest, ALineThatNeverEndsIsRefusedAt16KiB) {
  ScriptedServer server;
  HttpClient client(server.address());
  client.send("GET /" + std::string(20'000, 'x'));
  EXPECT_EQ(client.read().status, 431);
  HttpClient headers(server.address());
  std::string many = "GET / HTTP/1.1\r\nHost: x\r\n";
  while (many.size() <= 16 << 10) many += "A: b\r\n";
  headers.send(many);
  EXPECT_EQ(headers.read().status, 431);
}

TEST(HostileHttpTest, APipelineLongerThanTheReadAheadIsAnsweredInFull) {
  ScriptedServer server;
  HttpClient client(server.address());
  client.send(http_request("GET", "/held"));
  const auto held = server.take_held();
  const std::string one = http_request("GET", "/quick");
  std::string many;
  while (many.size() < 300'000) many += one;
  client.send(many);
  held->respond({});
  EXPECT_EQ(client.read().status, 200);
  for (size_t i = 0; i < many.size() / one.size(); ++i) EXPECT_EQ(client.read().body, "quick");
}

TEST(HostileHttpTest, RandomBytesNeverStopTheServer) {
  constexpr uint32_t kSeed = 11;
  SCOPED_TRACE(kSeed);
  std::mt19937 draw(kSeed);
  ScriptedServer server;
  for (int i = 0; i < 300; ++i) {
    HttpClient client(server.address());
    std::string bytes = i % 2 == 0 ? "" : http_request("POST", "/echo", "", "body");
    for (uint32_t n = draw() % 200; n > 0; --n) bytes += static_cast<char>(draw());
    client.send(bytes);
    if (i % 3 == 0) client.socket().hang_up();
  }
  server.expect_alive();
  EXPECT_TRUE(becomes_true([&] { return server.server().connections() == 0; }));
}

}  // namespace
}  // namespace lockstep::http
