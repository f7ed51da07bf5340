// SPDX-License-Identifier: Apache-2.0
// Frames without sockets: how they arrive in pieces of any size, and every way in which they may be
// wrong.
#include "worker/collectives/hosts/frame.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "base/numbers/crc32c.h"
#include "base/status.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kSeed = 20261122;
const Call kCall{.kind = Call::kAllGather,
                 .epoch = 3,
                 .number = 7,
                 .rows = 2,
                 .cols = 64,
                 .element_bytes = 4,
                 .boundaries_hash = 99,
                 .place = 256};

struct Matrix {
  Matrix(int64_t rows, int64_t row_bytes, int64_t stride)
      : bytes(rows * stride + 1, std::byte{0xa5}),
        piece{.rows = {bytes.data(), row_bytes, stride}, .bytes = rows * row_bytes} {}

  void fill(uint32_t seed) {
    std::minstd_rand random(seed);
    for_each_run(piece, [&](std::byte* run, int64_t, int64_t count) {
      for (int64_t i = 0; i < count; ++i) run[i] = static_cast<std::byte>(random() >> 7);
    });
  }

  std::vector<std::byte> bytes;
  RowBytes piece;
};

// All bytes that a writer sends, in system calls that take `max` bytes each.
std::string written(FrameWriter& writer, size_t max) {
  std::string stream;
  while (!writer.done()) {
    std::array<iovec, 5> parts;
    size_t left = max, taken = 0;
    for (size_t i = 0, count = writer.next(parts); i < count && left > 0; ++i) {
      const size_t bytes = std::min(left, parts[i].iov_len);
      stream.append(static_cast<const char*>(parts[i].iov_base), bytes);
      left -= bytes;
      taken += bytes;
    }
    writer.sent(taken);
  }
  return stream;
}

// Gives the reader as much of the stream as it accepts, at most `max` bytes at a time. Returns the
// reader's error, or the bytes that the reader did not need.
absl::StatusOr<std::string> feed(FrameReader& reader, std::string stream, size_t max) {
  while (!reader.done() && !stream.empty()) {
    std::array<iovec, 3> parts;
    size_t taken = 0;
    for (size_t i = 0, count = reader.next(parts); i < count; ++i) {
      const size_t bytes = std::min({parts[i].iov_len, stream.size() - taken, max - taken});
      std::memcpy(parts[i].iov_base, stream.data() + taken, bytes);
      taken += bytes;
    }
    stream.erase(0, taken);
    RETURN_IF_ERROR(reader.received(taken));
  }
  return stream;
}

TEST(FrameTest, PiecesArriveAsTheyWereSentForAnySplitOfTheStream) {
  SCOPED_TRACE(fmt::format("seed {}", kSeed));
  std::minstd_rand random(kSeed);
  FrameWriter writer;
  FrameReader reader;
  for (int round = 0; round < 300; ++round) {
    const int64_t rows = random() % 12, row_bytes = round % 20 == 0 ? 70'000 : random() % 90;
    Matrix from(rows, row_bytes, row_bytes + random() % 3);
    Matrix to(rows, row_bytes, row_bytes + random() % 3);
    from.fill(round + 1);
    writer.begin(kCall, from.piece);
    reader.expect(kCall, to.piece);
    const std::string stream = written(writer, 1 + random() % 100'000);
    EXPECT_EQ(feed(reader, stream, 1 + random() % 100'000).value(), "");
    EXPECT_TRUE(reader.done());
    Matrix want(rows, row_bytes, to.piece.rows.stride_bytes);
    want.fill(round + 1);
    EXPECT_EQ(to.bytes, want.bytes);
  }
}

TEST(FrameTest, AMiddlePartOfAPieceCanBeSent) {
  Matrix from(9, 100, 130), to(9, 100, 107);
  from.fill(1);
  for (Matrix* one : {&from, &to}) one->piece = {one->piece.rows, 333, 250};
  FrameWriter writer;
  FrameReader reader;
  writer.begin(kCall, from.piece);
  reader.expect(kCall, to.piece);
  EXPECT_EQ(feed(reader, written(writer, 64), 17).value(), "");
  std::vector<std::byte> sent(250), got(250);
  pack(from.piece, sent.data());
  pack(to.piece, got.data());
  EXPECT_EQ(sent, got);
}

TEST(FrameTest, AGoodbyeFollowsTheStartedFrameAndReplacesLaterFrames) {
  constexpr Goodbye kWhy{.failure = Failure::kGone, .number = 5};
  for (const int64_t begun : {0, 1, 200}) {  // The bytes already sent of the first of three frames.
    SCOPED_TRACE(begun);
    Matrix from(1, 3 * kFrameBytes, 3 * kFrameBytes), to(1, 3 * kFrameBytes, 3 * kFrameBytes);
    from.fill(2);
    FrameWriter writer;
    writer.begin(kCall, from.piece);
    std::array<iovec, 5> parts;
    ASSERT_GT(writer.next(parts), 0u);
    std::string stream(static_cast<const char*>(parts[0].iov_base), parts[0].iov_len);
    if (begun > 0) stream = stream.substr(0, std::min<size_t>(begun, parts[0].iov_len));
    if (begun > 0) writer.sent(stream.size());
    if (begun == 0) stream.clear();
    writer.send_goodbye(kWhy);
    stream += written(writer, 10'000);
    EXPECT_EQ(stream.size(), 2 * sizeof(FrameHeader) + kFrameBytes);
    FrameReader reader;
    reader.expect(kCall, to.piece);
    const absl::Status status = feed(reader, stream, 10'000).status();
    EXPECT_TRUE(absl::IsAborted(status)) << status;
    EXPECT_EQ(reader.goodbye(), kWhy);
  }
}

TEST(FrameTest, AGoodbyeBetweenTwoCallsIsReadInsteadOfTheSecondCall) {
  Matrix from(2, 40, 50), to(2, 40, 50);
  FrameWriter writer;
  FrameReader reader;
  writer.begin(kCall, from.piece);
  reader.expect(kCall, to.piece);
  EXPECT_EQ(feed(reader, written(writer, 1000), 1000).value(), "");
  writer.send_goodbye({.failure = Failure::kAborted, .number = 1});
  reader.expect(kCall, to.piece);
  EXPECT_TRUE(absl::IsAborted(feed(reader, written(writer, 1000), 7).status()));
  EXPECT_EQ(reader.goodbye(), (Goodbye{.failure = Failure::kAborted, .number = 1}));
}

TEST(FrameTest, AGoodbyeOutOfOrderIsRefused) {
  Matrix from(2, 40, 50), to(2, 40, 50);
  FrameWriter writer;
  writer.begin(kCall, from.piece);
  written(writer, 1000);
  writer.send_goodbye({});
  FrameReader reader;
  reader.expect(kCall, to.piece);
  const absl::Status status = feed(reader, written(writer, 1000), 1000).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_FALSE(reader.goodbye().has_value());
}

TEST(FrameTest, EveryChangedBitIsRefused) {
  Matrix from(2, 40, 50);
  from.fill(5);
  FrameWriter writer;
  writer.begin(kCall, from.piece);
  const std::string good = written(writer, 1000);
  for (size_t bit = 0; bit < 8 * good.size(); ++bit) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ 1 << bit % 8);
    Matrix to(2, 40, 50);
    FrameReader reader;
    reader.expect(kCall, to.piece);
    const absl::Status status = feed(reader, bad, 1000).status();
    EXPECT_TRUE(absl::IsUnavailable(status)) << "bit " << bit << ": " << status;
  }
}

// Changes fields of the stream's header, and makes its checksum valid again.
std::string with_header(std::string stream, const std::function<void(FrameHeader&)>& change) {
  FrameHeader header;
  std::memcpy(&header, stream.data(), sizeof(header));
  change(header);
  header.header_checksum = crc32c(&header, offsetof(FrameHeader, header_checksum));
  std::memcpy(stream.data(), &header, sizeof(header));
  return stream;
}

TEST(FrameTest, AnUnexpectedHeaderIsRefusedByNameBeforeItsBytesAreRead) {
  Matrix from(2, 40, 50);
  from.fill(5);
  FrameWriter writer;
  writer.begin(kCall, from.piece);
  const std::string good = written(writer, 1000);
  const std::pair<std::function<void(FrameHeader&)>, const char*> cases[] = {
      {[](FrameHeader& h) { h.magic = 7; }, "begin no frame"},
      {[](FrameHeader& h) { h.number = 1; }, "sent frame 1, but frame 0 was next"},
      {[](FrameHeader& h) { h.bytes = 81; }, "sent a frame of 81 bytes in all_gather 7"},
      {[](FrameHeader& h) { h.bytes = 79; }, "sent a frame of 79 bytes"},
      {[](FrameHeader& h) { h.bytes = 0xffffffffu; }, "sent a frame of 4294967295 bytes"},
      {[](FrameHeader& h) { h.call.epoch = 4; },
       "called all_gather 7 of 2 x 64 elements of 4 "
       "bytes in epoch 4"},
      {[](FrameHeader& h) { h.call.number = 8; }, "called all_gather 8"},
      {[](FrameHeader& h) { h.call.kind = Call::kAllReduce; }, "called all_reduce 7"},
      {[](FrameHeader& h) { h.call.boundaries_hash = 1; }, "with other boundaries"},
      {[](FrameHeader& h) { h.call.place = 0; }, "at another place"}};
  for (const auto& [change, message] : cases) {
    Matrix to(2, 40, 50);
    FrameReader reader;
    reader.expect(kCall, to.piece);
    const absl::Status status = feed(reader, with_header(good, change), 1000).status();
    EXPECT_FALSE(status.ok());
    EXPECT_THAT(message_of(status), HasSubstr(message));
    EXPECT_EQ(to.bytes, Matrix(2, 40, 50).bytes) << "bytes were read before: " << message;
  }
}

TEST(FrameTest, ARepeatedOrMissingFrameIsDetected) {
  Matrix from(1, 40, 40);
  FrameWriter writer;
  std::string frames[3];
  for (std::string& frame : frames) {
    writer.begin(kCall, from.piece);
    frame = written(writer, 1000);
  }
  const auto read = [&](const std::string& second) {
    FrameReader reader;
    reader.expect(kCall, from.piece);
    EXPECT_TRUE(feed(reader, frames[0], 1000).ok());
    reader.expect(kCall, from.piece);
    return feed(reader, second, 1000).status();
  };
  EXPECT_EQ(read(frames[1]), absl::OkStatus());
  EXPECT_THAT(message_of(read(frames[0])), HasSubstr("sent frame 0, but frame 1 was next"));
  EXPECT_THAT(message_of(read(frames[2])), HasSubstr("sent frame 2, but frame 1 was next"));
}

}  // namespace
}  // namespace lockstep
