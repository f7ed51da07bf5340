// SPDX-License-Identifier: Apache-2.0
// How much a client may send to gRPC, and how fast.
#include "coordinator/ports/grpc_pace.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/network/http2.h"

namespace lockstep {
namespace {

namespace http2 = testing::http2;

using Clock = GrpcPace::Clock;

using std::chrono::seconds;

constexpr int64_t kMiB = 1 << 20;
constexpr uint32_t kMaxReadBytes = 64 << 10;

// Connections that send as much as they may, on a clock of their own.
class Senders {
 public:
  using Pace = std::unique_ptr<GrpcPace>;
  Pace connect(const std::string& network = "10.0.0.1") {
    auto pace = std::make_unique<GrpcPace>(&shares_, network, now_);
    send(*pace, http2::preface());
    return pace;
  }
  // Sends these frames for `time`; returns the bytes that `pace` let pass.
  int64_t send_for(GrpcPace& pace, std::chrono::milliseconds time, const std::string& frames) {
    int64_t sent = 0;
    const Clock::time_point end = now_ + time;
    while (now_ < end) {
      const Clock::duration pause = pace.pause(now_);
      now_ += pause;
      if (pause > Clock::duration::zero()) continue;
      sent += send(pace, frames);
    }
    return sent;
  }
  int64_t send(GrpcPace& pace, std::string_view bytes) const {
    const auto size = static_cast<int64_t>(bytes.size());
    pace.count(size, bytes, now_);
    return size;
  }
  // Sends whole frames until the turn is over; returns the bytes.
  int64_t send_turn(GrpcPace& pace, std::string_view frames, size_t frame_bytes) const {
    int64_t sent = 0;
    pace.begin_turn();
    while (const size_t max = pace.max_read_bytes()) {
      sent += send(pace, frames.substr(0, max / frame_bytes * frame_bytes));
    }
    return sent;
  }
  void pass(Clock::duration time) { now_ += time; }
  Clock::time_point now() const { return now_; }

 private:
  Clock::time_point now_;
  GrpcShares shares_{now_};
};

std::string read_of(const std::string& frame) {
  std::string content;
  while (content.size() + frame.size() <= kMaxReadBytes) content += frame;
  return content;
}

const std::string kLargeFrames =
    read_of(http2::frame(http2::kData, 0, 1, std::string(16'000, 'd')));
const std::string kTinyFrames = read_of(http2::frame(http2::kPing, 1, 0, ""));

std::string headers(uint32_t stream, uint8_t flags) {
  return http2::frame(http2::kHeaders, http2::kEndHeaders | flags, stream, "x");
}

TEST(GrpcPaceTest, TwoLargestRequestsPassAtOnceAndThenOnePerSecond) {
  Senders senders;
  const Senders::Pace pace = senders.connect();
  const Clock::time_point start = senders.now();
  for (int64_t sent = 0; sent < 7 * kMiB; sent += senders.send(*pace, kLargeFrames)) {
    EXPECT_EQ(pace->pause(senders.now()), Clock::duration::zero());
  }
  EXPECT_EQ(senders.now(), start);
  const int64_t later = senders.send_for(*pace, seconds(10), kLargeFrames);
  EXPECT_GT(later, 38 * kMiB);
  EXPECT_LT(later, 43 * kMiB);
}

TEST(GrpcPaceTest, FramesAreBoundedInNumber) {
  Senders senders;
  const Senders::Pace pace = senders.connect();
  const int64_t bytes = senders.send_for(*pace, seconds(10), kTinyFrames);
  EXPECT_GT(bytes / 9 / 10, 10'000);
  EXPECT_LT(bytes / 9 / 10, 20'000);
}

TEST(GrpcPaceTest, ManyConnectionsShareABoundAndAQuietOneDoesNotWait) {
  Senders senders;
  std::vector<Senders::Pace> floods;
  floods.reserve(32);
  for (int i = 0; i < 32; ++i) floods.push_back(senders.connect(std::to_string(i % 4)));
  const Senders::Pace quiet = senders.connect("quiet");
  int64_t sent = 0;
  const Clock::time_point start = senders.now();
  while (senders.now() - start < seconds(20)) {
    for (const Senders::Pace& flood : floods) {
      sent += senders.send_for(*flood, std::chrono::milliseconds(1), kLargeFrames);
    }
    EXPECT_EQ(quiet->pause(senders.now()), Clock::duration::zero());
    senders.send(*quiet, http2::frame(http2::kData, 0, 1, "a question"));
  }
  const double time = std::chrono::duration<double>(senders.now() - start).count();
  EXPECT_GT(static_cast<double>(sent), 12e6 * time);
  EXPECT_LT(static_cast<double>(sent), 68e6 + 22e6 * time);
}

TEST(GrpcPaceTest, TheFloodsOfOneNetworkDoNotSlowAnother) {
  Senders senders;
  std::vector<Senders::Pace> floods;
  floods.reserve(32);
  for (int i = 0; i < 32; ++i) floods.push_back(senders.connect("many"));
  const Senders::Pace other = senders.connect("other");
  int64_t sent = 0;
  const Clock::time_point start = senders.now();
  while (senders.now() - start < seconds(20)) {
    for (const Senders::Pace& flood : floods) {
      if (flood->pause(senders.now()) > Clock::duration::zero()) continue;
      senders.send(*flood, kTinyFrames);
    }
    if (other->pause(senders.now()) == Clock::duration::zero()) {
      sent += senders.send(*other, kLargeFrames);
    }
    senders.pass(std::chrono::milliseconds(5));
  }
  EXPECT_GT(sent, 20 * 4 * kMiB);
}

TEST(GrpcPaceTest, ANewConnectionDoesNotRenewItsNetworksRate) {
  Senders senders;
  int64_t frames = 0;
  for (int i = 0; i < 10'000; ++i) {  // 10 s.
    const Senders::Pace pace = senders.connect();
    if (pace->pause(senders.now()) == Clock::duration::zero()) {
      frames += senders.send(*pace, kTinyFrames) / 9;
    }
    senders.pass(std::chrono::milliseconds(1));
  }
  EXPECT_GT(frames, 200'000);
  EXPECT_LT(frames, 600'000);
}

TEST(GrpcPaceTest, NewNetworksDoNotRenewTheRateOfAll) {
  Senders senders;
  int64_t sent = 0;
  for (int i = 0; i < 10'000; ++i) {  // 10 s.
    const Senders::Pace pace = senders.connect(std::to_string(i));
    if (pace->pause(senders.now()) == Clock::duration::zero()) {
      sent += senders.send(*pace, kLargeFrames);
    }
    senders.pass(std::chrono::milliseconds(1));
  }
  EXPECT_GT(sent, 200 * kMiB);
  EXPECT_LT(sent, 360 * kMiB);
}

TEST(GrpcPaceTest, AReadIsBoundedByTheCostOfItsFramesNotByItsBytes) {
  Senders senders;
  const Senders::Pace tiny = senders.connect();
  const Senders::Pace large = senders.connect();
  const std::string bytes(kMaxReadBytes, 'd');
  const std::string calls = read_of(headers(1, http2::kEndStream));
  for (int i = 0; i < 10; ++i) {
    EXPECT_LT(senders.send_turn(*tiny, kTinyFrames, 9) / 9, 200);
    EXPECT_LT(senders.send_turn(*tiny, calls, 10) / 10, 100);
  }
  senders.send(*large, http2::frame(http2::kData, 0, 1, "").replace(0, 3, "\xff\xff\xff"));
  for (int i = 0; i < 10; ++i) senders.send_turn(*large, bytes, 1);
  EXPECT_GT(senders.send_turn(*large, bytes, 1), 12'000);
}

// gRPC holds 20 KB for each call, however many it has announced to allow.
TEST(GrpcPaceTest, AConnectionHas256OpenCalls) {
  const auto call = [](const Senders& senders, GrpcPace& pace, uint32_t i) {
    senders.send(pace, headers(2 * i + 1, http2::kEndStream));
  };
  Senders senders;
  const Senders::Pace flood = senders.connect();
  for (uint32_t i = 0; i < 256; ++i) call(senders, *flood, i);
  EXPECT_EQ(flood->problem(), "");
  call(senders, *flood, 256);
  EXPECT_NE(flood->problem(), "");
  const Senders::Pace client = senders.connect();
  for (uint32_t i = 0; i < 1000; ++i) {
    call(senders, *client, i);
    client->count_answer(headers(2 * i + 1, i % 2 == 0 ? http2::kEndStream : 0));
    if (i % 2 == 1) {
      senders.send(*client,
                   http2::frame(http2::kResetStream, 0, 2 * i + 1, http2::big_endian(8, 4)));
    }
  }
  EXPECT_EQ(client->problem(), "");
}

TEST(GrpcPaceTest, ANetworkMayHave256MiBOfUnfinishedRequests) {
  Senders senders;
  const auto fill = [&](const std::string& network) {
    std::vector<Senders::Pace> paces;
    int64_t bytes = 0;
    while (bytes < 1024 * kMiB) {
      paces.push_back(senders.connect(network));
      GrpcPace& pace = *paces.back();
      senders.send(pace, headers(1, 0));
      for (int i = 0; i < 4 * 16 && pace.problem().empty(); ++i) {
        bytes += senders.send(pace, kLargeFrames);
      }
      if (!pace.problem().empty()) break;
    }
    return std::pair(std::move(paces), bytes);
  };
  const auto first = fill("one");
  EXPECT_GT(first.second, 248 * kMiB);
  EXPECT_LT(first.second, 258 * kMiB);
  const auto second = fill("two");
  EXPECT_GT(second.second, 228 * kMiB);
  const auto third = fill("three");
  EXPECT_GT(third.second, 50 * kMiB) << "a network that holds little keeps its connections";
  EXPECT_LT(third.second, 70 * kMiB);
}

TEST(GrpcPaceTest, ARequestHasThirtySecondsUnlessItIsAnswered) {
  Senders senders;
  const auto is_late = [&](const std::string& request, const std::string& answer) {
    const Senders::Pace pace = senders.connect();
    EXPECT_EQ(pace->deadline(), Clock::time_point::max());
    senders.send(*pace, request);
    pace->count_answer(answer);
    EXPECT_EQ(pace->deadline(), senders.now() + seconds(30));
    senders.pass(seconds(29));
    pace->check_time(senders.now());
    EXPECT_EQ(pace->problem(), "");
    senders.pass(seconds(1));
    pace->check_time(senders.now());
    return !pace->problem().empty();
  };
  const std::string half = http2::frame(http2::kData, 0, 1, "half");
  const std::string end = http2::frame(http2::kData, http2::kEndStream, 1, "");
  EXPECT_TRUE(is_late(headers(1, 0), ""));
  EXPECT_TRUE(is_late(headers(1, 0) + half, ""));
  EXPECT_TRUE(is_late(headers(1, 0) + end + headers(3, 0), headers(1, http2::kEndStream)));
  EXPECT_FALSE(is_late(headers(1, 0) + half + end, ""));
  EXPECT_FALSE(is_late(headers(1, 0) + kLargeFrames, "")) << "it sends more than 16 KiB/s";
  EXPECT_FALSE(is_late(headers(1, 0) + half, headers(1, 0)));
  EXPECT_FALSE(is_late(headers(1, 0) + half, headers(1, http2::kEndStream)));
}

TEST(GrpcPaceTest, FramesAreFoundWhereverTheyAreCut) {
  std::string stream = http2::preface();
  for (int i = 0; i < 50; ++i) {
    stream += http2::frame(http2::kData, 0, 1, std::string(static_cast<size_t>(i % 30), '\t'));
  }
  for (size_t piece = 1; piece < 40; ++piece) {
    Http2Frames frames(Http2Frames::kPrefaceBytes);
    int count = 0;
    for (size_t at = 0; at < stream.size(); at += piece) {
      frames.read(std::string_view(stream).substr(at, piece), [&](const Http2Frame& frame) {
        EXPECT_EQ(frame.stream, count == 0 ? 0U : 1U);
        ++count;
      });
    }
    EXPECT_EQ(count, 51);
  }
}

TEST(GrpcPaceTest, HeadersWithoutEndAreRefused) {
  Senders senders;
  const Senders::Pace pace = senders.connect();
  const std::string part = http2::frame(http2::kContinuation, 0, 1, std::string(16'000, 'h'));
  for (int i = 0; i < 20; ++i) {  // gRPC handles long headers, as long as they end.
    senders.send(*pace, headers(1, 0));
    for (int k = 0; k < 4; ++k) senders.send(*pace, part);
  }
  EXPECT_EQ(pace->problem(), "");
  senders.send(*pace, part);
  EXPECT_NE(pace->problem(), "");
}

}  // namespace
}  // namespace lockstep
