// SPDX-License-Identifier: Apache-2.0
// Connections of HTTP/2: their deadlines, their end, and TLS.
#include "tests/coordinator/http/scripted_server.h"
#include "tests/support/network/tls_client.h"

namespace lockstep::http {
namespace {

using std::chrono::milliseconds;
using testing::ServerTls;
using testing::Socket;
using testing::TlsClient;

// A connection and its request for /held, which the server has received. On a slow machine a server
// with short limits may close a connection before its first request: then the next one is tried.
struct Holder {
  explicit Holder(ScriptedServer& server) {
    do {
      client = std::make_unique<Http2Client>(server.address());
      held = client->get("/held");
      EXPECT_TRUE(becomes_true(
          [&] { return server.counts().requests > 0 || server.server().connections() == 0; }));
    } while (server.counts().requests == 0);
    exchange = server.take_held();
  }

  std::unique_ptr<Http2Client> client;
  int32_t held = 0;
  std::shared_ptr<Exchange> exchange;
};

TEST(Http2ConnectionTest, ASilentClientThatAnswersPingsStays) {
  ScriptedServer server(http2_options({.ping = milliseconds(20), .lost = kPatience}));
  Http2Client client(server.address());
  const int32_t held = client.get("/held");
  EXPECT_TRUE(client.read_until([&] { return client.pings() >= 5; }));
  server.take_held()->respond({.body = "held"});
  EXPECT_EQ(client.wait(held).body, "held");
}

TEST(Http2ConnectionTest, ASilentClientThatDoesNotAnswerIsClosed) {
  ScriptedServer server(http2_options({.ping = milliseconds(20), .lost = milliseconds(80)}));
  const Http2Client client(server.address());
  EXPECT_TRUE(becomes_true([&] { return server.server().connections() == 0; }));
}

TEST(Http2ConnectionTest, TheExchangesOfASilentClientAreGone) {
  ScriptedServer server(http2_options({.ping = milliseconds(20), .lost = milliseconds(80)}));
  const Holder holder(server);
  EXPECT_TRUE(becomes_true([&] { return server.counts().gone == 1; }));
}

TEST(Http2ConnectionTest, AnIdleConnectionGetsGoawayAndEnds) {
  ScriptedServer server(http2_options({.idle = milliseconds(50)}));
  Http2Client silent(server.address());
  silent.wait_until_closed();
  EXPECT_TRUE(silent.is_going_away());
  const Holder used(server);
  used.exchange->respond({.body = "held"});
  EXPECT_EQ(used.client->wait(used.held).body, "held");
  used.client->wait_until_closed();
  EXPECT_TRUE(used.client->is_going_away());
}

TEST(Http2ConnectionTest, AConnectionWithARequestIsNotIdle) {
  ScriptedServer server(http2_options({.idle = milliseconds(20)}));
  const Holder holder(server);
  Http2Client idle(server.address());
  idle.wait_until_closed();  // By now the limit for idle connections is over.
  holder.exchange->respond({.body = "held"});
  EXPECT_EQ(holder.client->wait(holder.held).body, "held");
}

TEST(Http2ConnectionTest, AClientThatDoesNotBeginIsClosed) {
  ScriptedServer server(http2_options({.header = milliseconds(50)}));
  const Socket silent(server.address());
  const Socket half(server.address());
  half.send(testing::http2::preface().substr(0, 20));
  for (const Socket* socket : {&silent, &half}) {
    while (!socket->receive().empty()) {  // The server's SETTINGS.
    }
  }
}

TEST(Http2ConnectionTest, AClientThatNeverReadsIsClosedAndTakesLittleMemory) {
  ScriptedServer server(http2_options({.write = milliseconds(100)}));
  Http2Client client(server.address());
  client.get("/endless");
  EXPECT_TRUE(becomes_true([&] { return server.counts().bytes_given > 0; }));
  server.expect_alive();
  EXPECT_TRUE(becomes_true([&] { return server.counts().sources == 0; }));
  EXPECT_TRUE(becomes_true([&] { return server.server().connections() == 0; }));
  EXPECT_LT(server.counts().bytes_given, 16 << 20);
}

TEST(Http2ConnectionTest, DrainingEndsOpenStreamsAndThenTheConnection) {
  ScriptedServer server(http2_options());
  Http2Client client(server.address());
  Http2Client unused(server.address());
  EXPECT_EQ(unused.wait(unused.get("/quick")).body, "quick");
  const int32_t held = client.get("/held");
  const std::shared_ptr<Exchange> exchange = server.take_held();
  const int32_t streamed = client.get("/stream");
  const std::shared_ptr<Exchange> streaming = server.take_held();
  const std::shared_ptr<Feed> feed = server.begin_stream(streaming);
  const int32_t half = client.post("/echo", "half", /*is_last=*/false);
  EXPECT_EQ(client.wait(client.get("/quick")).body, "quick");  // All requests before it were read.

  server.server().drain();
  unused.wait_until_closed();
  EXPECT_TRUE(unused.is_going_away());
  // The client has not read the GOAWAY yet. If the server ignored the request, the client had to
  // send it again, and grpc 1.51 never ends a call that it sends again to no avail.
  EXPECT_EQ(client.wait(client.get("/quick")).body, "quick");
  EXPECT_TRUE(client.is_going_away());
  client.send_body(half, " whole", /*is_last=*/true);
  EXPECT_EQ(client.wait(half).body, "half whole");
  exchange->respond({.body = "held"});
  EXPECT_EQ(client.wait(held).body, "held");
  feed->say("streamed", /*end=*/true);
  streaming->wake();
  EXPECT_EQ(client.wait(streamed).body, "streamed");
  client.wait_until_closed();
  EXPECT_EQ(server.counts().requests, 6);
}

TEST(Http2ConnectionTest, AConnectionWithoutARequestBeforeADrainGetsOneAnswer) {
  ScriptedServer server(http2_options());
  Http2Client before(server.address());
  server.server().drain();
  Http2Client after(server.address());
  for (Http2Client* client : {&before, &after}) {
    EXPECT_EQ(client->wait(client->get("/quick")).body, "quick");
    client->wait_until_closed();
    EXPECT_TRUE(client->is_going_away());
  }
}

// The client of a connection that is kept. On a slow machine the server may close earlier ones.
std::unique_ptr<Http2Client> kept_client(const ScriptedServer& server) {
  while (true) {
    auto client = std::make_unique<Http2Client>(server.address());
    if (client->wait(client->get("/keep")).body == "kept") return client;
  }
}

TEST(Http2ConnectionTest, AClientThatDoesNotProveWhoItIsInTimeIsClosed) {
  ScriptedServer server(http2_options({.unproven = UnprovenLimits{.time = milliseconds(100)}}));
  const std::unique_ptr<Http2Client> kept = kept_client(server);
  Http2Client stranger(server.address());
  stranger.get("/held");
  stranger.wait_until_closed();
  EXPECT_EQ(kept->wait(kept->get("/quick")).body, "quick");
}

// Limits of requests or bytes alone.
UnprovenLimits unproven(int32_t requests, size_t frame_bytes) {
  return {.time = std::chrono::hours(1), .requests = requests, .frame_bytes = frame_bytes};
}

TEST(Http2ConnectionTest, AClientThatDoesNotProveWhoItIsHasFewRequests) {
  ScriptedServer server(http2_options({.unproven = unproven(3, SIZE_MAX)}));
  const std::unique_ptr<Http2Client> kept = kept_client(server);
  Http2Client stranger(server.address());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(stranger.wait(stranger.get("/quick")).body, "quick");
  EXPECT_EQ(stranger.wait(stranger.get("/quick")).status, 0);
  stranger.wait_until_closed();
  for (int i = 0; i < 10; ++i) EXPECT_EQ(kept->wait(kept->get("/quick")).body, "quick");
}

TEST(Http2ConnectionTest, AClientThatDoesNotProveWhoItIsSendsFewBytes) {
  ScriptedServer server(http2_options({.unproven = unproven(INT32_MAX / 2, 4096)}));
  const std::unique_ptr<Http2Client> kept = kept_client(server);
  Http2Client stranger(server.address());
  const std::string body(3000, 'x');
  EXPECT_EQ(stranger.wait(stranger.post("/echo", body)).body, body);
  EXPECT_EQ(stranger.wait(stranger.post("/echo", body)).status, 0);
  stranger.wait_until_closed();
  for (int i = 0; i < 10; ++i) EXPECT_EQ(kept->wait(kept->post("/echo", body)).body, body);
}

TEST(Http2ConnectionTest, AConnectionThatIsNotKeptMakesRoom) {
  ServerOptions options = http2_options();
  options.threads = 1;
  options.max_connections = 3;
  options.when_full = WhenFull::kCloseOther;
  ScriptedServer server(options);
  const std::unique_ptr<Http2Client> kept = kept_client(server);
  std::vector<std::unique_ptr<Http2Client>> strangers;
  for (int i = 0; i < 10; ++i) {
    strangers.push_back(std::make_unique<Http2Client>(server.address()));
    EXPECT_EQ(strangers.back()->wait(strangers.back()->get("/quick")).body, "quick") << i;
  }
  EXPECT_EQ(kept->wait(kept->get("/quick")).body, "quick");
  EXPECT_EQ(std::ranges::count_if(strangers,
                                  [](const auto& client) {
                                    return client->wait(client->get("/quick")).body == "quick";
                                  }),
            2);
}

// If the oldest one made room, a client that is slower than a flood would never be served.
TEST(Http2ConnectionTest, TheOldestConnectionMayStayOpenWhileNewerOnesComeAndGo) {
  constexpr int kMax = 8;
  ServerOptions options = http2_options();
  options.threads = 1;
  options.max_connections = kMax;
  options.when_full = WhenFull::kCloseOther;
  ScriptedServer server(options);
  bool stayed_open = false;
  for (int round = 0; round < 100 && !stayed_open; ++round) {
    Http2Client slow(server.address());
    std::vector<std::unique_ptr<Http2Client>> strangers(kMax);
    for (auto& stranger : strangers) {
      stranger = std::make_unique<Http2Client>(server.address());
      EXPECT_EQ(stranger->wait(stranger->get("/quick")).body, "quick");
    }
    stayed_open = slow.wait(slow.get("/quick")).body == "quick";
  }
  EXPECT_TRUE(stayed_open);
}

// A host with several workers has many connections, but none of them can be closed. Its newest one
// used to be closed instead.
TEST(Http2ConnectionTest, KeptConnectionsDoNotMakeTheirNetworkLoseOthers) {
  ServerOptions options = http2_options();
  options.threads = 1;
  options.max_connections = 6;
  options.when_full = WhenFull::kCloseOther;
  ScriptedServer server(options);
  const std::unique_ptr<Http2Client> kept[] = {kept_client(server), kept_client(server),
                                               kept_client(server)};
  Http2Client honest(server.address());
  std::vector<Socket> strangers;
  for (int i = 0; i < 20; ++i) {
    strangers.emplace_back(server.address(), "127.0.0.2");
    EXPECT_TRUE(strangers.back().send(testing::http2::preface()));
    EXPECT_NE(strangers.back().receive(), "");  // The server's SETTINGS.
  }
  EXPECT_EQ(honest.wait(honest.get("/quick")).body, "quick");
}

TEST(Http2ConnectionTest, AKeptConnectionMayReceiveMuchAtOnce) {
  ScriptedServer server(http2_options());
  const std::unique_ptr<Http2Client> kept = kept_client(server);
  std::string body(3 << 20, '\0');
  for (size_t i = 0; i < body.size(); ++i) body[i] = static_cast<char>(i * i >> 8);
  EXPECT_EQ(kept->wait(kept->post("/echo", body)).body, body);
}

TEST(Http2ConnectionTest, WaitAnsweredWaitsForTheAnswersOfStreams) {
  ScriptedServer server(http2_options());
  Http2Client client(server.address());
  const int32_t held = client.get("/held");
  const std::shared_ptr<Exchange> exchange = server.take_held();
  const auto begin = std::chrono::steady_clock::now();
  server.server().wait_answered(milliseconds(50));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, milliseconds(50));
  exchange->respond({.body = "held"});
  const int32_t reset = client.get("/held");
  const std::shared_ptr<Exchange> other = server.take_held();
  client.reset(reset);
  server.server().wait_answered(kPatience);
  EXPECT_EQ(client.wait(held).body, "held");
}

TEST(Http2ConnectionTest, AClientThatDoesNotNegotiateHttp2OverTlsIsClosed) {
  const ServerTls identity;
  ServerOptions options = http2_options({.header = kPatience});
  options.tls = identity.files();
  ScriptedServer server(options);
  TlsClient without(server.address(), identity.client());
  ASSERT_TRUE(without.connected());
  EXPECT_EQ(without.request(testing::http2::preface()), "");
  EXPECT_FALSE(TlsClient(server.address(), identity.client("http/1.1")).connected());
  const TlsClient with(server.address(), identity.client("h2"));
  EXPECT_TRUE(with.connected());
  EXPECT_EQ(with.protocol(), "h2");
  EXPECT_EQ(server.counts().requests, 0);
}

TEST(Http2ConnectionTest, ManyConnectionsEachWithManyStreamsAreServedAtOnce) {
  ScriptedServer server(http2_options());
  constexpr int kClients = 20;
  constexpr int kStreams = 100;
  std::vector<std::unique_ptr<Http2Client>> clients;
  std::vector<std::vector<int32_t>> streams(kClients);
  for (int c = 0; c < kClients; ++c) {
    clients.push_back(std::make_unique<Http2Client>(server.address()));
    for (int i = 0; i < kStreams; ++i) streams[c].push_back(clients[c]->get("/held"));
  }
  for (int i = 0; i < kClients * kStreams; ++i) server.take_held()->respond({.body = "held"});
  for (int c = 0; c < kClients; ++c) {
    for (const int32_t stream : streams[c]) EXPECT_EQ(clients[c]->wait(stream).body, "held");
  }
}

}  // namespace
}  // namespace lockstep::http
