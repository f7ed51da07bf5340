// SPDX-License-Identifier: Apache-2.0
// Clients that end their sending side and wait for their answers.
#include <sys/socket.h>

#include "tests/coordinator/http/scripted_server.h"

namespace lockstep::http {
namespace {

// The client may also have hung up, so the server probes it with bytes that clients skip.
TEST(HalfClosedTest, AClientThatEndsItsSideAfterARequestGetsItsAnswer) {
  ScriptedServer server;
  HttpClient waiting(server.address());
  waiting.send(http_request("GET", "/held"));
  shutdown(waiting.socket().descriptor(), SHUT_WR);
  EXPECT_TRUE(waiting.read_until("HTTP/1.1 100 Continue\r\n\r\n"));
  server.take_held()->respond({.body = "late"});
  EXPECT_EQ(waiting.read().body, "late");
  EXPECT_TRUE(waiting.ends());

  HttpClient streaming(server.address());
  streaming.send(http_request("GET", "/stream"));
  const auto exchange = server.take_held();
  const auto feed = server.begin_stream(exchange);
  EXPECT_TRUE(streaming.read_until("\r\n\r\n"));
  shutdown(streaming.socket().descriptor(), SHUT_WR);
  EXPECT_TRUE(streaming.read_until("1\r\n\n\r\n"));
  feed->say("end", true);
  exchange->wake();
  EXPECT_TRUE(streaming.read_until("end\r\n0\r\n\r\n"));
  EXPECT_TRUE(streaming.ends());
  EXPECT_EQ(server.counts().gone, 0);
}

TEST(HalfClosedTest, AClientThatEndsItsSideAfterSeveralRequestsGetsAllAnswers) {
  ScriptedServer server;
  HttpClient client(server.address());
  client.send(http_request("GET", "/held") + http_request("GET", "/quick") +
              http_request("GET", "/held"));
  shutdown(client.socket().descriptor(), SHUT_WR);
  EXPECT_TRUE(client.read_until("HTTP/1.1 100 Continue\r\n\r\n"));
  server.take_held()->respond({.body = "first"});
  EXPECT_EQ(client.read().body, "first");
  EXPECT_EQ(client.read().body, "quick");
  server.take_held()->respond({.body = "last"});
  EXPECT_EQ(client.read().body, "last");
  EXPECT_TRUE(client.ends());
}

TEST(HalfClosedTest, AClientThatEndsItsSideDuringAnAnswerIsClosedAfterIt) {
  ScriptedServer server;
  HttpClient client(server.address());
  // The answer is longer than the system's buffers, so the client ends its side during the answer.
  const std::string body(4 << 20, 'e');
  client.send(http_request("POST", "/echo", "", body));
  EXPECT_TRUE(client.read_until("\r\n\r\n"));
  shutdown(client.socket().descriptor(), SHUT_WR);
  EXPECT_TRUE(client.read_until(body));
  EXPECT_TRUE(client.ends());
}

}  // namespace
}  // namespace lockstep::http
