// SPDX-License-Identifier: Apache-2.0
// Frames that no gRPC client sends: the server goes on and serves others.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <chrono>
#include <thread>

#include "tests/coordinator/api/api_server.h"
#include "tests/support/network/http2.h"
#include "tests/support/network/socket.h"

namespace lockstep {
namespace {

using testing::Socket;
namespace http2 = testing::http2;

const std::string kGenerate = "/lockstep.v1.Generation/Generate";

// A connection that reads all that arrives, so that the server never waits for it.
class Attacker {
 public:
  explicit Attacker(const std::string& address) : socket_(address) {
    socket_.send(http2::preface());
    reader_ = std::thread([this] {
      while (!socket_.receive().empty()) {
      }
    });
  }
  ~Attacker() {
    socket_.hang_up();
    reader_.join();
  }
  bool send(const std::string& bytes) const { return socket_.send(bytes); }
  // Sends as much of the frames from `begin` on as the socket takes now; returns the bytes sent.
  size_t send_some(const std::string& frames, size_t begin) const {
    const ssize_t count = ::send(socket_.descriptor(), frames.data() + begin, frames.size() - begin,
                                 MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return count < 0 ? 0 : static_cast<size_t>(count);
  }
  // Returns after the server has closed the connection.
  void wait_until_closed() {
    reader_.join();
    reader_ = std::thread([] {});
  }

 private:
  Socket socket_;
  std::thread reader_;
};

std::string headers_of(const http2::Headers& headers, uint32_t stream) {
  return http2::frame(http2::kHeaders, http2::kEndHeaders, stream, http2::hpack(headers));
}

TEST(HostileHttp2Test, TenThousandRapidResetsDoNoHarm) {
  const ApiServer server;
  {
    const Attacker attacker(server.address());
    for (uint32_t i = 0; i < 10'000; ++i) {
      const uint32_t stream = 2 * i + 1;
      const std::string cancel =
          http2::frame(http2::kResetStream, 0, stream, http2::big_endian(8, 4));
      if (!attacker.send(headers_of(http2::call_headers(kGenerate), stream) + cancel)) break;
    }
    server.expect_alive();
  }
  server.expect_alive();
}

TEST(HostileHttp2Test, PingsWithoutEndAreCutOff) {
  const ApiServer server;
  Attacker attacker(server.address());
  const std::string ping = http2::frame(http2::kPing, 0, 0, std::string(8, 'p'));
  while (attacker.send(ping)) {
  }
  attacker.wait_until_closed();
  server.expect_alive();
}

// Unpaced, they would occupy a thread of gRPC, which workers' heartbeats need as well. The system's
// buffers hold up to 10 MiB.
TEST(HostileHttp2Test, FramesWithoutEndArePaced) {
  const ApiServer server;
  const std::string update = http2::frame(http2::kWindowUpdate, 0, 0, http2::big_endian(1, 4));
  const std::string unknown = http2::frame(static_cast<http2::FrameType>(0x77), 0, 0, "");
  for (const std::string& frame : {update, unknown}) {
    const Attacker attacker(server.address());
    std::string frames;
    while (frames.size() < 1 << 20) frames += frame;
    constexpr size_t kMax = 128 << 20;
    size_t sent = 0;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(2);
    while (std::chrono::steady_clock::now() < end && sent < kMax) {
      sent += attacker.send_some(frames, sent % frames.size());
    }
    EXPECT_LT(sent, size_t{32} << 20);
    server.expect_alive();
  }
}

TEST(HostileHttp2Test, HeadersOfNineKilobytesAndABadTeDoNoHarm) {
  const ApiServer server;
  const Attacker attacker(server.address());
  http2::Headers headers = http2::call_headers(kGenerate);
  headers.emplace_back("long", std::string(9000, 'a'));
  attacker.send(headers_of(headers, 1));
  headers = http2::call_headers(kGenerate);
  headers[4].second = "gzip";
  attacker.send(headers_of(headers, 3));
  server.expect_alive();
}

TEST(HostileHttp2Test, HalfRequestsAndUnknownFramesDoNoHarm) {
  const ApiServer server;
  const Attacker attacker(server.address());
  for (uint32_t stream = 1; stream < 1000; stream += 2) {
    attacker.send(headers_of(http2::call_headers(kGenerate), stream));
    attacker.send(http2::frame(http2::kData, 0, stream, std::string("\0\0\0\x10\0half", 9)));
  }
  const Attacker another(server.address());
  another.send(http2::frame(static_cast<http2::FrameType>(0x77), 0xff, 9, "what is this"));
  const Attacker third(server.address());
  third.send(std::string(100'000, '\xff'));
  const Socket no_preface(server.address());
  no_preface.send("GET / HTTP/1.1\r\n\r\n");
  server.expect_alive();
}

// The client does not acknowledge gRPC's settings, so gRPC applies no limit of streams.
TEST(HostileHttp2Test, MoreThan256OpenCallsCloseTheConnection) {
  const ApiServer server;
  Attacker attacker(server.address());
  for (uint32_t stream = 1; stream < 600; stream += 2) {
    attacker.send(headers_of(http2::call_headers(kGenerate), stream));
  }
  attacker.wait_until_closed();
  server.expect_alive();
}

TEST(HostileHttp2Test, HeadersContinuedForMegabytesAreCutOff) {
  const ApiServer server;
  Attacker attacker(server.address());
  const std::string block = http2::hpack({{"a", "b"}});
  std::string frame;
  while (frame.size() < 16'000) frame += block;
  attacker.send(http2::frame(http2::kHeaders, 0, 1, http2::hpack(http2::call_headers(kGenerate))));
  while (attacker.send(http2::frame(http2::kContinuation, 0, 1, frame))) {
  }
  attacker.wait_until_closed();
  server.expect_alive();
}

}  // namespace
}  // namespace lockstep
