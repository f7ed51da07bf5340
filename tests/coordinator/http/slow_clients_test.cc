// SPDX-License-Identifier: Apache-2.0
// Slow and silent clients, however many there are, delay no other client.
#include <sys/resource.h>
#include <sys/socket.h>

#include <fstream>
#include <limits>

#include "base/system/descriptors.h"
#include "tests/coordinator/http/scripted_server.h"

namespace lockstep::http {
namespace {

using std::chrono::milliseconds;

int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  int64_t all = 0;
  int64_t resident = 0;
  file >> all >> resident;
  return resident * 4096;
}

TEST(SlowClientsTest, AHeaderThatTakesTooLongIs408) {
  ScriptedServer server({.header = milliseconds(50)});
  HttpClient client(server.address());
  client.send("GET /quick HTTP/1.1\r\nHo");
  const HttpAnswer answer = client.read();
  EXPECT_EQ(answer.status, 408);
  EXPECT_NE(answer.body.find("\"timeout\""), std::string::npos);
  EXPECT_TRUE(client.ends());
}

TEST(SlowClientsTest, OccasionalBytesDoNotExtendTheDeadline) {
  ScriptedServer server({.header = milliseconds(50), .linger = milliseconds(50)});
  HttpClient client(server.address());
  client.send("GET /quick HTTP/1.1\r\n");
  while (!client.socket().was_closed()) {  // The loop also ends when the 408 arrives.
    if (!client.send("X: y\r\n")) break;
    char byte = 0;
    if (recv(client.socket().descriptor(), &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 1) break;
    std::this_thread::yield();
  }
  EXPECT_TRUE(becomes_true([&] { return server.server().connections() == 0; }));
  EXPECT_EQ(server.counts().requests, 0);
}

TEST(SlowClientsTest, ABodyThatTakesTooLongIs408) {
  ScriptedServer server({.body = milliseconds(50)});
  HttpClient client(server.address());
  client.send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc");
  EXPECT_EQ(client.read().status, 408);
}

// Each of 32 answers takes 0.2 ms for each piece, and has always one more. Between two looks at the
// sockets only a few pieces may be made. The best of many requests counts, since the system may
// stop this thread at any time.
TEST(SlowClientsTest, AnswersThatTakeLongToWriteDelayNoOther) {
  ScriptedServer server(ServerOptions{.threads = 1});
  std::vector<std::unique_ptr<HttpClient>> slow;
  for (int i = 0; i < 32; ++i) {
    slow.push_back(std::make_unique<HttpClient>(server.address()));
    slow.back()->send("GET /slow HTTP/1.1\r\nHost: x\r\n\r\n");
  }
  EXPECT_TRUE(becomes_true([&] { return server.counts().slow_pieces > 32 * 4; }));
  HttpClient client(server.address());
  int64_t fewest = std::numeric_limits<int64_t>::max();
  for (int i = 0; i < 200; ++i) {
    const int64_t before = server.counts().slow_pieces;
    ASSERT_EQ(client.get("/quick").body, "quick");
    fewest = std::min<int64_t>(fewest, server.counts().slow_pieces - before);
  }
  EXPECT_LT(fewest, 16);
}

TEST(SlowClientsTest, ConnectionsThatSayNothingAreClosed) {
  ScriptedServer server({.header = milliseconds(50), .idle = milliseconds(50)});
  EXPECT_TRUE(HttpClient(server.address()).ends());
  HttpClient used(server.address());
  EXPECT_EQ(used.get("/quick").status, 200);
  EXPECT_TRUE(used.ends());
}

TEST(SlowClientsTest, ARequestThatIsAnsweredLateHasNoDeadline) {
  ScriptedServer server(
      {.header = milliseconds(20), .body = milliseconds(20), .idle = milliseconds(20)});
  HttpClient client(server.address());
  client.send(http_request("GET", "/held"));
  const auto held = server.take_held();
  HttpClient idle(server.address());
  EXPECT_TRUE(idle.ends());  // By now the deadlines are over.
  held->respond({.body = "late"});
  EXPECT_EQ(client.read().body, "late");
}

TEST(SlowClientsTest, AClientThatDoesNotLeaveAfterItsLastAnswerIsClosed) {
  ScriptedServer server({.linger = milliseconds(50)});
  HttpClient client(server.address());
  client.send("nonsense\r\n\r\n");
  EXPECT_EQ(client.read().status, 400);
  EXPECT_TRUE(becomes_true([&] { return server.server().connections() == 0; }));
}

TEST(SlowClientsTest, AClientThatNeverReadsIsCutOffAndTakesLittleMemory) {
  ScriptedServer server({.write = milliseconds(100)});
  HttpClient client(server.address());
  client.send(http_request("GET", "/endless"));
  EXPECT_TRUE(becomes_true([&] { return server.counts().sources == 1; }));
  server.expect_alive();
  EXPECT_TRUE(becomes_true([&] { return server.counts().sources == 0; }));
  // The bytes that were sent are in the system's buffers, most of them on the client's side.
  EXPECT_LT(server.counts().bytes_given, 16 << 20);
}

TEST(SlowClientsTest, ManyClientsThatNeverReadLeaveMemoryFlatAndOthersServed) {
  raise_descriptor_limit();
  ScriptedServer server;
  constexpr int kClients = 200;
  std::vector<HttpClient> clients;
  server.expect_alive();
  [[maybe_unused]] const int64_t before = resident_bytes();
  for (int i = 0; i < kClients; ++i) {
    clients.emplace_back(server.address());
    clients.back().send(http_request("GET", "/endless"));
  }
  EXPECT_TRUE(becomes_true([&] { return server.counts().sources == kClients; }));
  int64_t given = -1;  // Wait until all clients' buffers are full.
  EXPECT_TRUE(
      becomes_true([&] { return std::exchange(given, server.counts().bytes_given) == given; },
                   milliseconds(50)));
  for (int i = 0; i < 20; ++i) server.expect_alive();
#ifndef __SANITIZE_ADDRESS__  // The sanitizer keeps freed memory.
  // Each client takes a piece of 64 KiB; ThreadSanitizer multiplies that several times.
  EXPECT_LT(resident_bytes() - before, int64_t{kClients} << 20);
#endif
}

TEST(SlowClientsTest, AThousandConnectionsAreServedAtOnce) {
  raise_descriptor_limit();
  ScriptedServer server;
  std::vector<HttpClient> clients;
  clients.reserve(1000);
  for (int i = 0; i < 1000; ++i) clients.emplace_back(server.address());
  for (HttpClient& client : clients) client.send(http_request("GET", "/quick"));
  for (HttpClient& client : clients) EXPECT_EQ(client.read().body, "quick");
  for (HttpClient& client : clients) client.send("GET /quick HTTP/1.1\r\nHo");  // A part only.
  server.expect_alive();
  EXPECT_GE(server.server().connections(), 1000);
  clients.clear();
  EXPECT_TRUE(becomes_true([&] { return server.server().connections() == 0; }));
}

TEST(SlowClientsTest, MoreConnectionsThanAllowedAreRefused) {
  ScriptedServer server({}, 4);
  std::vector<HttpClient> clients;
  for (int i = 0; i < 4; ++i) {
    clients.emplace_back(server.address());
    EXPECT_EQ(clients.back().get("/quick").status, 200);
  }
  EXPECT_TRUE(HttpClient(server.address()).ends());
  clients.clear();
  EXPECT_TRUE(becomes_true([&] {
    HttpClient again(server.address());
    return again.send(http_request("GET", "/quick")) && again.read().status == 200;
  }));
}

TEST(SlowClientsTest, AServerOutOfDescriptorsRefusesAndGoesOn) {
  ScriptedServer server;
  server.expect_alive();
  // The connection of expect_alive() must not be counted below.
  EXPECT_TRUE(becomes_true([&] { return server.server().connections() == 0; }));
  rlimit limit = {};
  getrlimit(RLIMIT_NOFILE, &limit);
  std::vector<HttpClient> clients;
  clients.emplace_back(server.address());
  const rlimit few = {.rlim_cur = static_cast<rlim_t>(clients.back().socket().descriptor() + 60),
                      .rlim_max = limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  // Each connection has two descriptors: the client and the server are both in this process.
  for (int i = 0; i < 25; ++i) clients.emplace_back(server.address());
  EXPECT_TRUE(becomes_true([&] { return server.server().connections() == 26; }));
  std::vector<int> others;
  for (int one = dup(0); one >= 0; one = dup(0)) others.push_back(one);
  ::close(others.back());
  EXPECT_TRUE(HttpClient(server.address()).ends());  // This client takes the last descriptor.
  for (const int one : others) ::close(one);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  server.expect_alive();
  EXPECT_EQ(clients.back().get("/quick").status, 200);
}

// The system's buffers may take 4 MB of each answer; all bounds below leave room for that. The
// clients are one network, which may have half of the bytes.
constexpr size_t kLargeBytes = 20'000'000;

// One thread serves requests in the order of their arrival.
ServerOptions one_thread(int64_t all_answer_bytes) {
  return {.threads = 1, .max_connections = 50, .limits = {.all_answer_bytes = all_answer_bytes}};
}

// An answer is buffered whole. all_answer_bytes bounds the answers that wait for slow clients.
TEST(SlowClientsTest, AnswersThatWaitToBeReadAreBoundedTogether) {
  ScriptedServer server(one_thread(2 * (3 * kLargeBytes + 1'000'000)));
  const auto ask = [&](HttpClient& client, size_t bytes) {
    client.send(http_request("GET", "/held"));
    server.take_held()->respond({.body = std::string(bytes, 'a')});
  };
  std::vector<std::unique_ptr<HttpClient>> slow;
  for (int i = 0; i < 3; ++i) {
    slow.push_back(std::make_unique<HttpClient>(server.address()));
    ask(*slow.back(), kLargeBytes);
  }
  HttpClient fourth(server.address());
  ask(fourth, kLargeBytes);
  const HttpAnswer refused = fourth.read();
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.headers.at("retry-after"), "1");
  ask(fourth, 64 << 10);
  EXPECT_EQ(fourth.read().status, 200);
  for (const auto& client : slow) EXPECT_EQ(client->read().body.size(), kLargeBytes);
  ask(fourth, kLargeBytes);
  EXPECT_EQ(fourth.read().status, 200);
}

// A stream that writes one large event at once.
class LongEvent final : public BodySource {
 public:
  State read(std::string* bytes) override {
    bytes->append(kLargeBytes, 'a');
    return State::kEnd;
  }
};

// A stream that has begun cannot be refused, so streams above the bound are closed.
TEST(SlowClientsTest, StreamsThatWaitToBeReadAreBoundedTogether) {
  ScriptedServer server(one_thread(2 * (3 * kLargeBytes + 1'000'000)));
  std::vector<testing::Socket> slow;
  const auto ask = [&] {
    slow.emplace_back(server.address());
    EXPECT_TRUE(slow.back().send(http_request("GET", "/held")));
    server.take_held()->stream({}, std::make_unique<LongEvent>());
  };
  const auto read = [](const testing::Socket& socket) {
    size_t bytes = 0;
    for (std::string piece = socket.receive(); !piece.empty(); piece = socket.receive()) {
      bytes += piece.size();
      if (piece.ends_with("0\r\n\r\n")) break;
    }
    return bytes;
  };
  for (int i = 0; i < 4; ++i) ask();
  EXPECT_LT(read(slow[3]), kLargeBytes);
  for (int i = 0; i < 3; ++i) EXPECT_GT(read(slow[i]), kLargeBytes);
  ask();
  EXPECT_GT(read(slow[4]), kLargeBytes);
}

// A connection has requests of two clients: carol's, and then another one. An answer counts for the
// client that sent its request.
TEST(SlowClientsTest, OneClientMayHaveHalfOfTheAnswersThatAreNotRead) {
  const Gate gate = [](const Request& head) -> Admission {
    return {.refusal = std::nullopt, .client = std::string(head.header("Client"))};
  };
  ServerOptions options = one_thread(4 * kLargeBytes + 4'000'000);
  options.gate = gate;
  ScriptedServer server(std::move(options));
  const auto ask = [&](HttpClient& client, const std::string& name) {
    client.send(http_request("GET", "/held", "Client: " + name + "\r\n"));
    server.take_held()->respond({.body = std::string(kLargeBytes, 'a')});
  };
  std::vector<std::unique_ptr<HttpClient>> clients;
  const auto begin = [&](const std::string& name) {
    clients.push_back(std::make_unique<HttpClient>(server.address()));
    clients.back()->send(http_request("POST", "/echo", "Client: carol\r\n", "a"));
    EXPECT_EQ(clients.back()->read().status, 200);
    ask(*clients.back(), name);
  };
  for (int i = 0; i < 2; ++i) begin("bob");
  HttpClient third(server.address());
  ask(third, "bob");
  EXPECT_EQ(third.read().status, 503);
  begin("alice");
  for (const auto& client : clients) EXPECT_EQ(client->read().body.size(), kLargeBytes);
}

TEST(SlowClientsTest, ConnectionsOfOneNetworkLeaveRoomForOthers) {
  ScriptedServer server(ServerOptions{.max_connections = 8, .when_full = WhenFull::kShare});
  std::vector<std::unique_ptr<HttpClient>> silent;
  for (int i = 0; i < 7; ++i) {
    silent.push_back(std::make_unique<HttpClient>(server.address()));
    EXPECT_EQ(silent.back()->get("/quick").status, 200);
  }
  EXPECT_TRUE(testing::Socket(server.address()).is_closed_by_peer());
  const testing::Socket other(server.address(), "127.0.0.2");
  EXPECT_TRUE(other.send(http_request("GET", "/quick")));
  EXPECT_NE(other.receive().find("200 OK"), std::string::npos);
  silent.pop_back();
  EXPECT_TRUE(becomes_true([&] { return server.server().connections() == 7; }));
  EXPECT_EQ(HttpClient(server.address()).get("/quick").status, 200);
}

TEST(SlowClientsTest, TheNetworkWithTheMostConnectionsMakesRoomForANewerOne) {
  ScriptedServer server(
      ServerOptions{.threads = 1, .max_connections = 4, .when_full = WhenFull::kCloseOther});
  const testing::Socket oldest(server.address(), "127.0.0.2");
  server.expect_alive();
  std::vector<std::unique_ptr<HttpClient>> silent;
  for (int i = 0; i < 60; ++i) {
    silent.push_back(std::make_unique<HttpClient>(server.address()));
    server.expect_alive();
  }
  EXPECT_TRUE(silent.front()->ends());
  EXPECT_TRUE(oldest.send(http_request("GET", "/quick")));
  EXPECT_NE(oldest.receive().find("200 OK"), std::string::npos);
}

TEST(SlowClientsTest, BodiesAreBoundedTogether) {
  ScriptedServer server({.all_body_bytes = 2 << 20});  // One network may use half.
  std::vector<HttpClient> clients;
  for (int i = 0; i < 8; ++i) {
    clients.emplace_back(server.address());
    clients.back().send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 400000\r\n\r\n" +
                        std::string(399'999, 'x'));
  }
  const auto refused = [&] {
    return std::ranges::count_if(clients, [](const HttpClient& client) {
      char byte = 0;
      return recv(client.socket().descriptor(), &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 1;
    });
  };
  EXPECT_TRUE(becomes_true([&] { return refused() >= 5; }));
  std::vector<HttpClient> served;
  for (HttpClient& client : clients) {
    char byte = 0;
    if (recv(client.socket().descriptor(), &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 1) {
      const HttpAnswer answer = client.read();
      EXPECT_EQ(answer.status, 503);
      EXPECT_EQ(answer.headers.at("retry-after"), "1");
    }
  }
  clients.clear();
  EXPECT_TRUE(becomes_true([&] { return server.server().connections() == 0; }));
  HttpClient again(server.address());
  EXPECT_EQ(again.post("/echo", std::string(400'000, 'x')).status, 200);
}

}  // namespace
}  // namespace lockstep::http
