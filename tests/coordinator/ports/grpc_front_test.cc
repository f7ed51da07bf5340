// SPDX-License-Identifier: Apache-2.0
// The relay between clients and gRPC carries bytes both ways, bounds them, and passes ends on. The
// test plays gRPC.
#include "coordinator/ports/grpc_front.h"

#include <gtest/gtest.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <thread>
#include <vector>

#include "base/sockets/address.h"
#include "base/system/descriptors.h"
#include "base/threads/mutex.h"
#include "coordinator/ports/grpc_connection.h"
#include "coordinator/ports/listener.h"
#include "tests/support/network/http2.h"
#include "tests/support/network/socket.h"
#include "tests/support/network/tls_client.h"
#include "tests/support/patience.h"

namespace lockstep::testing {
namespace {

constexpr size_t kMessage = 4 << 20;

// gRPC's end of a connection, with blocking calls.
class Inner {
 public:
  explicit Inner(int descriptor) : descriptor_(descriptor) {}
  ~Inner() { close(); }
  Inner(Inner&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

  // The name that gRPC sees, without "unix-abstract:".
  std::string peer() const {
    sockaddr_un name = {};
    socklen_t bytes = sizeof name;
    EXPECT_EQ(getpeername(descriptor_, reinterpret_cast<sockaddr*>(&name), &bytes), 0);
    return {name.sun_path + 1, bytes - offsetof(sockaddr_un, sun_path) - 1};
  }
  // Receives `bytes` bytes; fewer at the end.
  std::string receive(size_t bytes) const {
    std::string all(bytes, '\0');
    size_t filled = 0;
    while (filled < bytes) {
      wait(POLLIN);
      const ssize_t count = recv(descriptor_, all.data() + filled, bytes - filled, 0);
      if (count == 0 || (count < 0 && errno != EAGAIN)) break;
      if (count > 0) filled += static_cast<size_t>(count);
    }
    all.resize(filled);
    return all;
  }
  void send(std::string_view bytes) const {
    while (!bytes.empty()) {
      wait(POLLOUT);
      const size_t count = send_some(bytes);
      ASSERT_GT(count, 0U);
      bytes.remove_prefix(count);
    }
  }
  // Returns 0 if the socket takes nothing now.
  size_t send_some(std::string_view bytes) const {
    const ssize_t count = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    return count < 0 ? 0 : static_cast<size_t>(count);
  }
  void close() {
    if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
  }

 private:
  void wait(short events) const {
    pollfd one = {.fd = descriptor_, .events = events};
    EXPECT_EQ(poll(&one, 1, static_cast<int>(kPatience.count() * 1000)), 1);
  }
  int descriptor_;
};

// A port with a front.
class Port {
 public:
  explicit Port(const TlsFiles& tls = {}, bool wants_proof = false) {
    auto listener = Listener::bind("127.0.0.1:0", 10'000, WhenFull::kShare);
    EXPECT_TRUE(listener.ok()) << listener.status();
    listener_ = *std::move(listener);
    std::unique_ptr<TlsContext> context;
    if (tls.given()) context = *TlsContext::load(tls, address(), TlsProtocol::kHttp2);
    const auto hand_over = [this](int descriptor) {
      const MutexLock lock(&mutex_);
      given_.emplace_back(descriptor);
      changed_.notify_all();
    };
    auto front = GrpcFront::start(address(), std::move(context), hand_over, wants_proof);
    EXPECT_TRUE(front.ok()) << front.status();
    front_ = *std::move(front);
    listener_->start([this](int descriptor) { front_->adopt(descriptor); });
  }
  ~Port() {
    listener_->stop();
    if (front_ != nullptr) front_->stop();
  }

  const std::string& address() const { return listener_->address(); }
  // The next connection, in the order of arrival.
  Inner next() {
    const MutexLock lock(&mutex_);
    while (given_.size() <= taken_) changed_.wait(&mutex_);
    return std::move(given_[taken_++]);
  }
  size_t given() {
    const MutexLock lock(&mutex_);
    return given_.size();
  }
  void trust(const std::string& peer) { front_->trust(peer); }
  void end() {
    listener_->stop();
    front_.reset();
  }

 private:
  Mutex mutex_;
  ConditionVariable changed_;
  std::vector<Inner> given_ ABSL_GUARDED_BY(mutex_);
  size_t taken_ ABSL_GUARDED_BY(mutex_) = 0;
  std::unique_ptr<GrpcFront> front_;
  std::unique_ptr<Listener> listener_;
};

std::string message() {
  std::string text(kMessage, '\0');
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * i >> 8);
  return text;
}

std::string receive_all(const Socket& socket, size_t bytes) {
  std::string all;
  while (all.size() < bytes) {
    const std::string piece = socket.receive();
    if (piece.empty()) break;
    all += piece;
  }
  return all;
}

TEST(GrpcFrontTest, MessagesGoBothWaysAtOnce) {
  Port port;
  const Socket client(port.address());
  const Inner inner = port.next();
  const std::string sent = message();
  std::thread sender([&] { client.send(sent); });
  std::thread answerer([&] { inner.send(sent); });
  std::thread receiver([&] { EXPECT_EQ(receive_all(client, sent.size()), sent); });
  EXPECT_EQ(inner.receive(sent.size()), sent);
  for (std::thread* thread : {&sender, &answerer, &receiver}) thread->join();
}

TEST(GrpcFrontTest, GrpcSeesTheClientsName) {
  Port port;
  const Socket first(port.address());
  const Socket second(port.address(), "127.0.0.2");
  const std::string one = port.next().peer();
  const std::string other = port.next().peer();
  EXPECT_TRUE(one.starts_with(kRelayedName)) << one;
  const auto address_of = [](const std::string& name) {
    return address_of_grpc_peer(std::string(kAbstractPrefix) + name);
  };
  EXPECT_EQ(address_of(one), local_address(first.descriptor()));
  EXPECT_EQ(address_of(other), local_address(second.descriptor()));
  EXPECT_EQ(network_of(address_of(other)), "127.0.0.2");
}

TEST(GrpcFrontTest, EndsArePassedOnAfterAllBytes) {
  Port port;
  const std::string text(100'000, 't');
  {
    const Socket client(port.address());  // It may end its sending side only.
    const Inner inner = port.next();
    client.send(text);
    shutdown(client.descriptor(), SHUT_WR);
    EXPECT_EQ(inner.receive(text.size() + 1), text);
    inner.send(text);
    EXPECT_EQ(receive_all(client, text.size()), text);
  }
  {
    const Socket client(port.address());
    Inner inner = port.next();
    inner.send(text);
    inner.close();
    EXPECT_EQ(receive_all(client, text.size() + 1), text);
  }
  auto client = std::make_unique<Socket>(port.address());
  const Inner inner = port.next();
  const linger now = {.l_onoff = 1, .l_linger = 0};
  setsockopt(client->descriptor(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
  client.reset();
  EXPECT_EQ(inner.receive(1), "");
}

TEST(GrpcFrontTest, TheLastBytesAreSentWhenThePortIsClosed) {
  Port port;
  const Socket client(port.address());
  const std::string text(300'000, 't');
  std::string received;
  std::thread reader([&] { received = receive_all(client, text.size() + 1); });
  {
    const Inner inner = port.next();
    inner.send(text);
  }
  port.end();
  reader.join();
  EXPECT_EQ(received, text);
}

// The system's buffers hold up to 10 MiB per TCP connection, in addition to 64 KiB of the front.
TEST(GrpcFrontTest, ASlowReaderSlowsTheOtherSide) {
  Port port;
  const Socket client(port.address());
  const Inner inner = port.next();
  const std::string piece(64 << 10, 'p');
  constexpr size_t kMax = 32 << 20;
  size_t sent = 0;
  for (int idle = 0; idle < 100 && sent < kMax; ++idle) {
    while (const size_t count = inner.send_some(piece)) {
      sent += count;
      idle = 0;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_LT(sent, kMax);
  std::thread reader([&] { receive_all(client, sent + piece.size()); });
  inner.send(piece);
  reader.join();
}

TEST(GrpcFrontTest, AThousandIdleConnectionsAreServed) {
  raise_descriptor_limit();
  Port port;
  std::vector<Socket> clients;
  std::vector<Inner> inner;
  for (int i = 0; i < 1000; ++i) {
    clients.emplace_back(port.address());
    inner.push_back(port.next());
  }
  for (const size_t i : {0U, 500U, 999U}) {
    clients[i].send("question");
    EXPECT_EQ(inner[i].receive(8), "question");
    inner[i].send("answer");
    EXPECT_EQ(clients[i].receive(), "answer");
  }
}

// ---- TLS ----

struct TlsPort : ServerTls {
  explicit TlsPort(bool mutual = false) : port(files(mutual)) {}
  TlsClientOptions client() const { return ServerTls::client("h2"); }

  Port port;
};

TEST(GrpcFrontTest, TlsEndsAtTheFront) {
  TlsPort setup;
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    TlsClientOptions options = setup.client();
    options.version = version;
    TlsClient client(setup.port.address(), options);
    EXPECT_EQ(client.protocol(), "h2");
    EXPECT_EQ(client.server_name(), "server");
    const Inner inner = setup.port.next();
    const std::string sent = message();
    const std::string head = "Content-Length: " + std::to_string(sent.size()) + "\r\n\r\n";
    std::thread grpc([&] {
      EXPECT_EQ(inner.receive(sent.size()), sent);
      inner.send(head + sent);
    });
    EXPECT_EQ(client.request(sent), head + sent);
    grpc.join();
  }
}

TEST(GrpcFrontTest, GrpcSeesNothingOfClientsThatAreRefused) {
  TlsPort setup(/*mutual=*/true);
  const Authority stranger;
  const auto is_refused = [&](const TlsClientOptions& options) {
    return TlsClient(setup.port.address(), options).request("question").empty();
  };
  TlsClientOptions options = setup.client();
  EXPECT_TRUE(is_refused(options));
  options.identity = stranger.sign("stranger");
  EXPECT_TRUE(is_refused(options));
  options.identity = setup.authority.sign("late", -1);
  EXPECT_TRUE(is_refused(options));
  options.identity = setup.authority.sign("friend");
  for (const char* protocol : {"", "http/1.1"}) {
    options.protocol = protocol;
    EXPECT_TRUE(is_refused(options)) << protocol;
  }
  options.protocol = "h2";
  options.version = TLS1_1_VERSION;
  EXPECT_TRUE(is_refused(options));
  EXPECT_TRUE(Socket(setup.port.address()).send("no handshake of TLS at all"));
  EXPECT_EQ(setup.port.given(), 0U);
  options.version = 0;
  TlsClient client(setup.port.address(), options);
  setup.port.next().send("Content-Length: 0\r\n\r\n");
  EXPECT_FALSE(client.request("question").empty());
}

TEST(GrpcFrontTest, AnUnfinishedHandshakeEndsWithThePort) {
  TlsPort setup;
  const Socket silent(setup.port.address());
  const Socket half(setup.port.address());
  half.send(std::string("\x16\x03\x01\x02\x00\x01", 6));
  const TlsClient third(setup.port.address(), setup.client());
  EXPECT_TRUE(third.connected());  // By now the front has the others.
  setup.port.end();
  EXPECT_TRUE(silent.is_closed_by_peer());
  EXPECT_TRUE(half.is_closed_by_peer());
}

TEST(GrpcFrontTest, AClientThatIsGoneGetsNoHandshake) {
  TlsPort setup;
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(answer_to_abandoned_hello(setup.port.address()), "");
  }
}

TEST(GrpcFrontTest, EndlessKeyUpdatesEndTheConnection) {
  TlsPort setup;
  TlsClient client(setup.port.address(), setup.client());
  const Inner inner = setup.port.next();
  client.update_keys(1000);
  EXPECT_EQ(inner.receive(1), "");
}

TEST(GrpcFrontTest, AHandshakeHasTenSeconds) {
  const ServerTls server;
  const auto context = TlsContext::load(server.files(), "test", TlsProtocol::kHttp2);
  ASSERT_TRUE(context.ok()) << context.status();
  int pair[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
  GrpcConnection::Clock::time_point now;
  GrpcShares shares(now);
  GrpcConnection connection({.client = pair[0], .tls = (*context)->open(pair[0])},
                            std::make_unique<GrpcPace>(&shares, "10.0.0.1", now), now);
  std::vector<char> scratch(GrpcConnection::kMaxReadBytes);
  EXPECT_EQ(connection.time(), now + std::chrono::seconds(10));
  connection.on_time(
      {.now = connection.time() - std::chrono::seconds(1), .scratch = scratch.data()});
  EXPECT_FALSE(connection.is_over());
  connection.on_time({.now = connection.time(), .scratch = scratch.data()});
  EXPECT_TRUE(connection.is_over());
  close(pair[1]);
}

// ---- Clients that must prove who they are ----

// A connection without a front, on a clock that advances only by hand.
struct Stranger {
  explicit Stranger(bool wants_proof = true)
      : connection({.client = outer[0], .inner = inner[0], .wants_proof = wants_proof},
                   std::make_unique<GrpcPace>(&shares, "10.0.0.1", now), now) {}
  ~Stranger() {
    close(outer[1]);
    close(inner[1]);
  }
  static std::array<int, 2> pair() {
    std::array<int, 2> ends;
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends.data()), 0);
    return ends;
  }
  GrpcConnection::EventContext turn() { return {.now = now, .scratch = scratch.data()}; }
  // Sends 32 MiB; returns the number of bytes that reach gRPC.
  size_t carry() {
    const std::string bytes(GrpcConnection::kMaxReadBytes, '\0');
    size_t carried = 0;
    for (int i = 0; i < 512; ++i) {
      EXPECT_EQ(::send(outer[1], bytes.data(), bytes.size(), 0), std::ssize(bytes));
      while ((connection.client_events() & EPOLLIN) != 0) {
        connection.on_client(EPOLLIN, turn());
        const ssize_t count = recv(inner[1], scratch.data(), scratch.size(), 0);
        if (count <= 0) break;
        carried += static_cast<size_t>(count);
      }
      if ((connection.client_events() & EPOLLIN) == 0) break;
    }
    return carried;
  }

  std::array<int, 2> outer = pair();
  std::array<int, 2> inner = pair();
  GrpcConnection::Clock::time_point now;
  GrpcShares shares{now};
  std::vector<char> scratch = std::vector<char>(GrpcConnection::kMaxReadBytes);
  GrpcConnection connection;
};

TEST(GrpcFrontTest, AProofHasTenSeconds) {
  Stranger stranger;
  EXPECT_EQ(stranger.connection.time(), stranger.now + std::chrono::seconds(10));
  Stranger worker;
  worker.connection.trust(worker.now);
  EXPECT_EQ(worker.connection.time(), GrpcConnection::kNever);
  for (Stranger* one : {&stranger, &worker}) {
    one->now += std::chrono::seconds(10);
    one->connection.on_time(one->turn());
  }
  EXPECT_TRUE(stranger.connection.is_over());
  EXPECT_FALSE(worker.connection.is_over());
  EXPECT_EQ(Stranger(/*wants_proof=*/false).connection.time(), GrpcConnection::kNever);
}

TEST(GrpcFrontTest, TheRateOfATrustedConnectionIsNotLimited) {
  Stranger worker;
  worker.connection.trust(worker.now);
  EXPECT_EQ(worker.carry(), 32U << 20);
  Stranger stranger;
  EXPECT_LT(stranger.carry(), 16U << 20);
  EXPECT_GT(stranger.connection.time(), stranger.now);
  stranger.connection.trust(stranger.now);
  EXPECT_EQ(stranger.connection.time(), stranger.now) << "the pause is over";
}

TEST(GrpcFrontTest, ARequestHasThirtySecondsToArrive) {
  Stranger client(/*wants_proof=*/false);
  const auto begin_call = [&](uint32_t stream) {
    const std::string head = http2::frame(http2::kHeaders, http2::kEndHeaders, stream, "h");
    EXPECT_GT(::send(client.outer[1], head.data(), head.size(), 0), 0);
    client.connection.on_client(EPOLLIN, client.turn());
  };
  const std::string preface = http2::preface();
  EXPECT_GT(::send(client.outer[1], preface.data(), preface.size(), 0), 0);
  begin_call(1);
  EXPECT_EQ(client.connection.time(), client.now + std::chrono::seconds(30));
  const std::string answer =
      http2::frame(http2::kHeaders, http2::kEndHeaders | http2::kEndStream, 1, "h");
  EXPECT_GT(::send(client.inner[1], answer.data(), answer.size(), 0), 0);
  client.connection.on_inner(EPOLLIN, client.turn());
  client.now += std::chrono::seconds(30);
  client.connection.on_time(client.turn());
  EXPECT_FALSE(client.connection.is_over());
  begin_call(3);
  client.now += std::chrono::seconds(30);
  client.connection.on_time(client.turn());
  EXPECT_TRUE(client.connection.is_over());
  EXPECT_EQ(client.connection.problem(), "a request did not end within 30 s");
}

TEST(GrpcFrontTest, TrustFindsAConnectionByTheNameThatGrpcUses) {
  Port port({}, /*wants_proof=*/true);
  const Socket client(port.address());
  const Inner inner = port.next();
  port.trust("unix-abstract:" + inner.peer());
  client.send("question");
  EXPECT_EQ(inner.receive(8), "question");
}

}  // namespace
}  // namespace lockstep::testing
