// SPDX-License-Identifier: Apache-2.0
// Frames that no gRPC client sends: the server goes on and serves others.
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

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

// A read of an attacker's frames takes long. After each long read, the server's thread does other
// work for the same time. So attackers get at most half of its time.
TEST(HostileHttp2Test, FramesWithoutEndLeaveTimeForOthers) {
  const ApiServer server;
  const std::string update = http2::frame(http2::kWindowUpdate, 0, 0, http2::big_endian(1, 4));
  const std::string unknown = http2::frame(static_cast<http2::FrameType>(0x77), 0, 0, "");
  const std::string ping = http2::frame(http2::kPing, 0, 0, std::string(8, 'p'));
  const std::string priority = http2::frame(http2::kPriority, 0, 1, std::string(5, '\0'));
  std::atomic<bool> over{false};
  std::vector<std::thread> attackers;
  for (const std::string& frame : {update, unknown, ping, priority}) {
    attackers.emplace_back([&server, &over, frame] {
      std::string frames;
      while (frames.size() < 1 << 16) frames += frame;
      while (!over) {
        const Attacker attacker(server.address());
        while (!over && attacker.send(frames)) {
        }
      }
    });
  }
  for (int i = 0; i < 20; ++i) server.expect_alive();
  over = true;
  for (std::thread& attacker : attackers) attacker.join();
}

TEST(HostileHttp2Test, HeadersOfNineKilobytesAndABadTeHeaderDoNoHarm) {
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
