// SPDX-License-Identifier: Apache-2.0
// How much a client may send to gRPC, and how fast.
#include "coordinator/ports/grpc_pace.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/support/network/http2.h"

namespace lockstep {
namespace {

namespace http2 = testing::http2;

using Clock = GrpcPace::Clock;

constexpr int64_t kMiB = 1 << 20;
constexpr uint32_t kMaxReadBytes = 64 << 10;

// Connections that send as much as they may, on a clock of their own.
class Senders {
 public:
  GrpcPace connect() { return {&all_, now_}; }
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
  int64_t send(GrpcPace& pace, const std::string& bytes) const {
    const auto size = static_cast<int64_t>(bytes.size());
    EXPECT_TRUE(pace.count(size, 1, bytes, now_));
    return size;
  }
  Clock::time_point now() const { return now_; }

 private:
  Clock::time_point now_;
  TokenBucket all_ = GrpcPace::for_all(now_);
};

std::string read_of(const std::string& frame) {
  std::string content;
  while (content.size() + frame.size() <= kMaxReadBytes) content += frame;
  return content;
}

const std::string kLargeFrames =
    read_of(http2::frame(http2::kData, 0, 1, std::string(16'000, 'd')));
const std::string kTinyFrames = read_of(http2::frame(http2::kPing, 1, 0, ""));

void begin(const Senders& senders, GrpcPace& pace) { senders.send(pace, http2::preface()); }

TEST(GrpcPaceTest, TwoLargestRequestsPassAtOnceAndThenOnePerSecond) {
  Senders senders;
  GrpcPace pace = senders.connect();
  begin(senders, pace);
  const Clock::time_point start = senders.now();
  for (int64_t sent = 0; sent < 7 * kMiB; sent += senders.send(pace, kLargeFrames)) {
    EXPECT_EQ(pace.pause(senders.now()), Clock::duration::zero());
  }
  EXPECT_EQ(senders.now(), start);
  const int64_t later = senders.send_for(pace, std::chrono::seconds(10), kLargeFrames);
  EXPECT_GT(later, 38 * kMiB);
  EXPECT_LT(later, 43 * kMiB);
}

TEST(GrpcPaceTest, FramesAreBoundedInNumber) {
  Senders senders;
  GrpcPace pace = senders.connect();
  begin(senders, pace);
  const int64_t bytes = senders.send_for(pace, std::chrono::seconds(10), kTinyFrames);
  EXPECT_GT(bytes / 9 / 10, 10'000);
  EXPECT_LT(bytes / 9 / 10, 20'000);
}

TEST(GrpcPaceTest, ManyConnectionsShareABoundAndAQuietOneDoesNotWait) {
  Senders senders;
  std::vector<GrpcPace> floods;
  for (int i = 0; i < 32; ++i) {
    floods.push_back(senders.connect());
    begin(senders, floods.back());
  }
  GrpcPace quiet = senders.connect();
  begin(senders, quiet);
  int64_t sent = 0;
  const Clock::time_point start = senders.now();
  while (senders.now() - start < std::chrono::seconds(20)) {
    for (GrpcPace& flood : floods) {
      sent += senders.send_for(flood, std::chrono::milliseconds(1), kLargeFrames);
    }
    EXPECT_EQ(quiet.pause(senders.now()), Clock::duration::zero());
    senders.send(quiet, http2::frame(http2::kData, 0, 1, "a question"));
  }
  const double seconds = std::chrono::duration<double>(senders.now() - start).count();
  EXPECT_GT(static_cast<double>(sent), 12e6 * seconds);
  EXPECT_LT(static_cast<double>(sent), 64e6 + 20e6 * seconds);
}

TEST(GrpcPaceTest, FramesAreFoundWhereverTheyAreCut) {
  std::string stream = http2::preface();
  for (int i = 0; i < 50; ++i) {
    stream += http2::frame(http2::kData, 0, 1, std::string(static_cast<size_t>(i % 30), '\t'));
  }
  for (size_t piece = 1; piece < 40; ++piece) {
    Http2Frames frames;
    for (size_t at = 0; at < stream.size(); at += piece) {
      EXPECT_TRUE(frames.read(std::string_view(stream).substr(at, piece)));
    }
    EXPECT_EQ(frames.count(), 51);
  }
}

TEST(GrpcPaceTest, HeadersWithoutEndAreRefused) {
  Http2Frames frames;
  EXPECT_TRUE(frames.read(http2::preface()));
  const std::string part = http2::frame(http2::kContinuation, 0, 1, std::string(16'000, 'h'));
  for (int i = 0; i < 20; ++i) {  // gRPC handles long headers, as long as they end.
    EXPECT_TRUE(frames.read(http2::frame(http2::kHeaders, 0, 1, "")));
    for (int k = 0; k < 4; ++k) EXPECT_TRUE(frames.read(part));
  }
  EXPECT_FALSE(frames.read(part));
}

}  // namespace
}  // namespace lockstep
