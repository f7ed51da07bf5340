// SPDX-License-Identifier: Apache-2.0
// The server with well-behaved clients.
#include "coordinator/http/connection/server.h"

#include <sys/socket.h>

#include <thread>
#include <vector>

#include "base/status.h"
#include "coordinator/ports/listener.h"
#include "tests/coordinator/http/scripted_server.h"
#include "tests/support/patience.h"

namespace lockstep::http {
namespace {

TEST(HttpServerTest, AConnectionServesRequestAfterRequest) {
  ScriptedServer server;
  HttpClient client(server.address());
  for (int i = 0; i < 3; ++i) {
    const HttpAnswer answer = client.get("/quick");
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.body, "quick");
    EXPECT_FALSE(answer.headers.contains("connection"));
    EXPECT_TRUE(answer.headers.contains("date"));
  }
  EXPECT_EQ(client.post("/echo", std::string(100'000, 'e')).body, std::string(100'000, 'e'));
  EXPECT_EQ(server.server().connections(), 1);
}

// A body that the gate refuses is not received: no memory is held for it.
TEST(HttpServerTest, TheGateLooksAtTheHeadAlone) {
  const Gate gate = [](const Request& head) -> Admission {
    if (head.header("Authorization") == "Bearer key") return {};
    return {.refusal = Refusal{.status = 401, .code = "invalid_api_key", .message = "no API key"}};
  };
  ScriptedServer server(ServerOptions{.max_connections = 10, .gate = gate});
  HttpClient stranger(server.address());
  stranger.send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 4000000\r\n\r\nbegin");
  const HttpAnswer refused = stranger.read();
  EXPECT_EQ(refused.status, 401);
  EXPECT_EQ(refused.headers.at("connection"), "close");
  HttpClient waiting(server.address());
  waiting.send(
      "POST /echo HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n");
  EXPECT_EQ(waiting.read().status, 401) << "and no 100 before it";
  EXPECT_EQ(server.counts().requests, 0);
  HttpClient known(server.address());
  known.send(
      "POST /echo HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer key\r\nContent-Length: 4"
      "\r\n\r\nbo");
  known.send("dy");
  EXPECT_EQ(known.read().body, "body");
}

// Without this limit, one client could keep out others' bodies with bodies that it never ends.
TEST(HttpServerTest, OneClientMayHaveHalfOfTheBodiesBeingReceived) {
  const Gate gate = [](const Request& head) -> Admission {
    return {.refusal = std::nullopt, .client = std::string(head.header("Client"))};
  };
  ScriptedServer server(
      ServerOptions{.max_connections = 50, .limits = {.all_body_bytes = 4'000'000}, .gate = gate});
  const std::string rest = "Content-Length: 100001\r\n\r\n" + std::string(100'000, 'x');
  std::vector<std::unique_ptr<HttpClient>> clients;
  for (int i = 0; i < 30; ++i) {
    clients.push_back(std::make_unique<HttpClient>(server.address()));
    clients.back()->send("POST /echo HTTP/1.1\r\nHost: x\r\nClient: bob\r\n" + rest);
  }
  HttpClient other(server.address());
  other.send("POST /echo HTTP/1.1\r\nHost: x\r\nClient: alice\r\n" + rest);
  other.send("x");
  EXPECT_EQ(other.read().status, 200);
  int refused = 0;
  for (const auto& client : clients) {
    client->send("x");
    refused += client->read().status == 503 ? 1 : 0;
  }
  EXPECT_GT(refused, 0);
  EXPECT_LT(refused, 30);
}

TEST(HttpServerTest, AnIdleConnectionMakesRoomForANewOneIfSoConfigured) {
  ScriptedServer server(
      ServerOptions{.threads = 1, .max_connections = 4, .when_full = WhenFull::kCloseOther});
  HttpClient first(server.address());
  EXPECT_EQ(first.get("/quick").body, "quick");
  HttpClient busy(server.address());
  busy.send(http_request("GET", "/held"));
  const auto held = server.take_held();
  std::vector<std::unique_ptr<HttpClient>> silent;
  for (int i = 0; i < 60; ++i) {
    silent.push_back(std::make_unique<HttpClient>(server.address()));
    server.expect_alive();
  }
  EXPECT_TRUE(first.ends());
  held->respond({.body = "late"});
  EXPECT_EQ(busy.read().body, "late");
}

TEST(HttpServerTest, AnIdleConnectionStaysIfTheDefaultLimitIsNotReached) {
  ScriptedServer server(ServerOptions{.threads = 1, .when_full = WhenFull::kCloseOther});
  HttpClient first(server.address()), second(server.address());
  for (HttpClient* client : {&first, &second, &first, &second}) {
    EXPECT_EQ(client->get("/quick").body, "quick");
  }
}

TEST(HttpServerTest, PipelinedRequestsAreAnsweredInOrder) {
  ScriptedServer server;
  HttpClient client(server.address());
  std::string all;
  for (int i = 0; i < 200; ++i) all += http_request("POST", "/echo", "", std::to_string(i));
  client.send(all);
  for (int i = 0; i < 200; ++i) EXPECT_EQ(client.read().body, std::to_string(i));
}

TEST(HttpServerTest, ARequestAfterAHeldOneWaitsForIt) {
  ScriptedServer server;
  HttpClient client(server.address());
  client.send(http_request("GET", "/held") + http_request("GET", "/quick"));
  const auto held = server.take_held();
  EXPECT_EQ(server.counts().requests, 1);
  held->respond({.status = 404, .body = "none"});
  EXPECT_EQ(client.read().body, "none");
  EXPECT_EQ(client.read().body, "quick");
}

TEST(HttpServerTest, HeadHasTheLengthAndNoBody) {
  ScriptedServer server;
  HttpClient client(server.address());
  client.send(http_request("HEAD", "/quick"));
  EXPECT_EQ(client.read(/*no_body=*/true).headers["content-length"], "5");
  client.send(http_request("HEAD", "/stream"));
  server.begin_stream(server.take_held());
  EXPECT_EQ(client.read(/*no_body=*/true).status, 200);
  EXPECT_EQ(server.counts().sources, 0);
  EXPECT_EQ(client.get("/quick").body, "quick");  // No bytes of a body came between.
}

TEST(HttpServerTest, AStreamIsSentPieceByPiece) {
  ScriptedServer server;
  HttpClient client(server.address());
  client.send(http_request("GET", "/stream"));
  const auto exchange = server.take_held();
  const auto feed = server.begin_stream(exchange);
  EXPECT_TRUE(client.read_until("\r\n\r\n"));  // The head arrives before there is a piece.
  for (int i = 0; i < 20; ++i) {
    const std::string text = "data: " + std::to_string(i) + "\n\n";
    feed->say(text);
    exchange->wake();
    EXPECT_TRUE(client.read_until(text + "\r\n"));
  }
  feed->say("last", /*end=*/true);
  exchange->wake();
  EXPECT_TRUE(client.read_until("00000004\r\nlast\r\n0\r\n\r\n"));
  EXPECT_EQ(client.get("/quick").body, "quick");
  EXPECT_EQ(server.counts().sources, 0);
  EXPECT_EQ(server.counts().gone, 0);
}

TEST(HttpServerTest, AStreamToHttp10EndsWithTheConnection) {
  ScriptedServer server;
  HttpClient client(server.address());
  client.send("GET /stream HTTP/1.0\r\n\r\n");
  const auto exchange = server.take_held();
  server.begin_stream(exchange)->say("all of it", /*end=*/true);
  exchange->wake();
  const HttpAnswer answer = client.read();
  EXPECT_EQ(answer.body, "all of it");
  EXPECT_EQ(answer.headers.at("connection"), "close");
}

TEST(HttpServerTest, TheVersionOfALaterRequestChangesNothingForAStream) {
  ScriptedServer server;
  HttpClient client(server.address());
  client.send(http_request("GET", "/stream"));
  const auto exchange = server.take_held();
  client.send("GET /quick HTTP/1.0\r\n\r\n");
  for (int i = 0; i < 8; ++i) server.expect_alive();  // By then the request is read.
  server.begin_stream(exchange)->say("all of it", /*end=*/true);
  exchange->wake();
  EXPECT_EQ(client.read().headers.at("transfer-encoding"), "chunked");
  EXPECT_EQ(client.read().body, "quick");
}

TEST(HttpServerTest, AClientThatWaitsForContinueGetsIt) {
  ScriptedServer server;
  HttpClient client(server.address());
  client.send(
      "POST /echo HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  EXPECT_TRUE(client.read_until("HTTP/1.1 100 Continue\r\n\r\n"));
  client.send("ab");
  EXPECT_EQ(client.read().body, "ab");
  client.send(
      "POST /echo HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 9999999\r\n\r\n");
  EXPECT_EQ(client.read().status, 413);
  EXPECT_TRUE(client.ends());
}

TEST(HttpServerTest, ARefusalReachesAClientThatStillSends) {
  ScriptedServer server;
  HttpClient client(server.address());
  const std::string body(5 << 20, 'x');
  const HttpAnswer answer = client.post("/echo", body);
  EXPECT_EQ(answer.status, 413);
  EXPECT_EQ(answer.headers.at("connection"), "close");
  EXPECT_EQ(answer.headers.at("content-type"), "application/json");
  EXPECT_NE(answer.body.find("\"code\":\"body_too_large\""), std::string::npos) << answer.body;
  EXPECT_EQ(server.counts().requests, 0);
}

TEST(HttpServerTest, CloseIsHonouredAndAHalfClosedClientGetsItsAnswer) {
  ScriptedServer server;
  HttpClient client(server.address());
  client.send(http_request("GET", "/quick", "Connection: close\r\n"));
  EXPECT_EQ(client.read().headers.at("connection"), "close");
  EXPECT_TRUE(client.ends());
  HttpClient half(server.address());
  half.send(http_request("GET", "/quick"));
  shutdown(half.socket().descriptor(), SHUT_WR);
  EXPECT_EQ(half.read().body, "quick");
}

TEST(HttpServerTest, AClientThatGoesWhileItWaitsIsNoticed) {
  ScriptedServer server;
  {
    HttpClient client(server.address());
    client.send(http_request("GET", "/held"));
    EXPECT_TRUE(becomes_true([&] { return server.counts().requests == 1; }));
  }
  EXPECT_TRUE(becomes_true([&] { return server.counts().gone == 1; }));
  EXPECT_TRUE(becomes_true([&] { return server.server().connections() == 0; }));
  const auto held = server.take_held();
  std::atomic<bool> called = false;
  held->on_gone([&] { called = true; });  // The client is gone already: the call is immediate.
  EXPECT_TRUE(becomes_true([&] { return called.load(); }));
  held->respond({.body = "too late"});
  held->wake();
}

TEST(HttpServerTest, AClientThatGoesDuringAStreamEndsItsSource) {
  ScriptedServer server;
  std::shared_ptr<Exchange> exchange;
  {
    HttpClient client(server.address());
    client.send(http_request("GET", "/stream"));
    exchange = server.take_held();
    server.begin_stream(exchange)->say("data: 1\n\n");
    exchange->wake();
    EXPECT_TRUE(client.read_until("data: 1"));
    EXPECT_EQ(server.counts().sources, 1);
  }
  EXPECT_TRUE(becomes_true([&] { return server.counts().sources == 0; }));
  EXPECT_TRUE(becomes_true([&] { return server.counts().gone == 1; }));
}

TEST(HttpServerTest, OnGoneIsNotCalledAfterTheAnswerIsSent) {
  ScriptedServer server;
  {
    HttpClient client(server.address());
    client.send(http_request("GET", "/held"));
    server.take_held()->respond({.body = "x"});
    EXPECT_EQ(client.read().body, "x");
    EXPECT_EQ(client.get("/quick").body, "quick");  // By now the first exchange's end is known.
  }
  EXPECT_TRUE(becomes_true([&] { return server.server().connections() == 0; }));
  EXPECT_EQ(server.counts().gone, 0);
}

TEST(HttpServerTest, AnExchangeThatIsDroppedClosesTheConnection) {
  ScriptedServer server;
  HttpClient client(server.address());
  EXPECT_EQ(client.get("/dropped").status, 0);
}

TEST(HttpServerTest, SilenceIsFilledWithEmptyLines) {
  ScriptedServer server({.silence = std::chrono::milliseconds(20)});
  HttpClient client(server.address());
  client.send(http_request("GET", "/stream"));
  const auto exchange = server.take_held();
  const auto feed = server.begin_stream(exchange);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(client.read_until("1\r\n\n\r\n"));
  feed->say("end", true);
  exchange->wake();
  EXPECT_TRUE(client.read_until("end\r\n0\r\n\r\n"));
}

constexpr std::chrono::hours kForever{1};

// A streamed answer whose head has arrived.
struct BegunStream {
  explicit BegunStream(ScriptedServer* server) : client(server->address()) {
    client.send(http_request("GET", "/stream"));
    exchange = server->take_held();
    feed = server->begin_stream(exchange);
    EXPECT_TRUE(client.read_until("\r\n\r\n"));
  }
  void end() {
    feed->say("rest", true);
    exchange->wake();
    EXPECT_TRUE(client.read_until("rest\r\n0\r\n\r\n"));
  }

  HttpClient client;
  std::shared_ptr<Exchange> exchange;
  std::shared_ptr<Feed> feed;
};

TEST(HttpServerTest, DrainingClosesIdleConnectionsAndLetsStreamsFinish) {
  ScriptedServer server({.last_request = std::chrono::milliseconds(20)});
  HttpClient idle(server.address());
  EXPECT_EQ(idle.get("/quick").status, 200);
  BegunStream stream(&server);

  server.server().drain();
  EXPECT_TRUE(idle.ends());
  HttpClient probe(server.address());  // The probe is still served, and then closed.
  EXPECT_EQ(probe.get("/quick").headers.at("connection"), "close");
  EXPECT_TRUE(probe.ends());
  stream.end();
  EXPECT_TRUE(stream.client.ends());
}

// A client that has just connected may be about to send: if its connection closed then, it would
// not know whether its request was taken.
TEST(HttpServerTest, DrainingLeavesANewConnectionItsFirstRequest) {
  ScriptedServer server({.last_request = std::chrono::milliseconds(20)});
  HttpClient idle(server.address());
  EXPECT_EQ(idle.get("/quick").status, 200);
  std::vector<HttpClient> fresh;
  fresh.reserve(4);
  for (int i = 0; i < 4; ++i) fresh.emplace_back(server.address());  // All threads get some.
  EXPECT_TRUE(becomes_true([&] { return server.server().connections() == 5; }));
  server.server().drain();
  EXPECT_TRUE(idle.ends());
  for (HttpClient& client : fresh) {
    const HttpAnswer answer = client.get("/quick");
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.headers.at("connection"), "close");
    EXPECT_TRUE(client.ends());
  }
}

void expect_last_answer(HttpClient* client) {
  const HttpAnswer answer = client->get("/quick");
  ASSERT_EQ(answer.status, 200);
  EXPECT_EQ(answer.headers.at("connection"), "close");
  EXPECT_TRUE(client->ends());
}

// The client may send its next request before it learns that the server drains.
TEST(HttpServerTest, DrainingAnswersTheNextRequestOfConnectionsThatStayedOpen) {
  ScriptedServer server({.last_request = kForever});
  HttpClient idle(server.address());
  EXPECT_EQ(idle.get("/quick").status, 200);
  BegunStream stream(&server);

  server.server().drain();
  stream.end();
  expect_last_answer(&stream.client);
  expect_last_answer(&idle);
}

TEST(HttpServerTest, AServerFinishesAfterTheLastAnswerOfEveryConnection) {
  ScriptedServer server({.last_request = kForever});
  auto idle = std::make_unique<HttpClient>(server.address());
  EXPECT_EQ(idle->get("/quick").status, 200);
  auto fresh = std::make_unique<HttpClient>(server.address());
  std::thread finishing([&] { server.server().finish(kForever); });
  const auto port_is_free = [&] { return Listener::bind(server.address(), 1).ok(); };
  EXPECT_TRUE(becomes_true(port_is_free));
  for (auto* client : {&idle, &fresh}) {
    expect_last_answer(client->get());
    client->reset();
  }
  finishing.join();
  EXPECT_EQ(server.server().connections(), 0);
}

TEST(HttpServerTest, ExchangesOutliveTheirServer) {
  ScriptedServer server;
  HttpClient waiting(server.address());
  waiting.send(http_request("GET", "/held"));
  const auto held = server.take_held();
  HttpClient streaming(server.address());
  streaming.send(http_request("GET", "/stream"));
  const auto exchange = server.take_held();
  server.begin_stream(exchange);
  EXPECT_TRUE(streaming.read_until("\r\n\r\n"));
  server.stop();
  EXPECT_EQ(server.counts().sources, 0);
  EXPECT_EQ(server.counts().gone, 2);
  server.begin_stream(held);
  EXPECT_EQ(server.counts().sources, 0);
  exchange->wake();
  bool called = false;
  exchange->on_gone([&] { called = true; });
  EXPECT_TRUE(called);
}

TEST(HttpServerTest, AnswersComeFromAnyThread) {
  ScriptedServer server;
  constexpr int kClients = 16;
  std::vector<std::thread> clients;
  clients.reserve(kClients);
  for (int i = 0; i < kClients; ++i) {
    clients.emplace_back([&server, i] {
      HttpClient client(server.address());
      client.send(http_request("GET", "/stream"));
      const auto exchange = server.take_held();  // The exchange may be another client's.
      const auto feed = server.begin_stream(exchange);
      for (int n = 0; n < 100; ++n) {
        feed->say(std::to_string(n) + " ");
        exchange->wake();
      }
      feed->say("end", true);
      exchange->wake();
      const HttpAnswer answer = client.read();
      EXPECT_TRUE(answer.whole) << i;
      EXPECT_TRUE(answer.body.ends_with("98 99 end")) << answer.body;
    });
  }
  for (std::thread& client : clients) client.join();
}

TEST(HttpServerTest, ATakenPortIsAnErrorThatNamesIt) {
  ScriptedServer server;
  const auto second = Server::start({.address = server.address()}, [](const auto&) {});
  EXPECT_EQ(second.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(message_of(second.status()).find(server.address()), std::string::npos);
}

}  // namespace
}  // namespace lockstep::http
