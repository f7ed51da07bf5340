// SPDX-License-Identifier: Apache-2.0
#include "worker/collectives/hosts/frame.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>

#include "base/check.h"
#include "base/numbers/crc32c.h"
#include "base/status.h"

namespace lockstep {
namespace {

static_assert(std::endian::native == std::endian::little, "frames are sent as they are in memory");

uint32_t header_checksum(const FrameHeader& header) {
  return crc32c(&header, offsetof(FrameHeader, header_checksum));
}

// A goodbye's rank comes from the peer and is reduced to this range. It is only shown in messages,
// never used as an index.
constexpr uint64_t kGoodbyeRanks = 1 << 16;

// Fills `parts` with the memory of the piece's first `bytes`, as far as there is room; returns the
// number of parts.
size_t list_runs(RowBytes piece, int64_t bytes, std::span<iovec> parts) {
  // Separate rows need one part each; contiguous rows need one for all.
  const Rows& rows = piece.rows;
  piece.bytes = bytes;
  if (bytes > 0 && rows.row_bytes != rows.stride_bytes) {
    const int64_t whole = (static_cast<int64_t>(parts.size()) - 1) * rows.row_bytes;
    const int64_t first = rows.row_bytes - piece.begin % rows.row_bytes;
    piece.bytes = std::min(bytes, first + whole);
  }
  size_t count = 0;
  for_each_run(piece, [&](std::byte* run, int64_t, int64_t length) {
    parts[count++] = {.iov_base = run, .iov_len = static_cast<size_t>(length)};
  });
  return count;
}

void drop_front(RowBytes& piece, int64_t bytes) {
  piece.begin += bytes;
  piece.bytes -= bytes;
}

}  // namespace

// --- Sending

void FrameWriter::begin(const Call& call, const RowBytes& piece) {
  LOCKSTEP_CHECK(done_);
  header_.call = call;
  piece_ = piece;
  done_ = false;
  start_frame();
}

void FrameWriter::start_frame() {
  frame_left_ = std::min(piece_.bytes, kFrameBytes);
  header_.bytes = static_cast<uint32_t>(frame_left_);
  header_.number = frames_++;
  header_.checksum = 0;
  for_each_run({piece_.rows, piece_.begin, frame_left_},
               [&](const std::byte* run, int64_t, int64_t bytes) {
                 header_.checksum = crc32c(run, static_cast<size_t>(bytes), header_.checksum);
               });
  header_.header_checksum = header_checksum(header_);
  header_sent_ = 0;
}

void FrameWriter::send_goodbye(const Goodbye& goodbye) {
  goodbye_ = Call{.kind = static_cast<uint64_t>(goodbye.failure),
                  .number = static_cast<uint64_t>(goodbye.number)};
  if (done_) return start_goodbye();
  piece_.bytes = frame_left_;
}

void FrameWriter::start_goodbye() {
  header_ = {.magic = FrameHeader::kGoodbye, .number = frames_++, .call = *goodbye_};
  header_.header_checksum = header_checksum(header_);
  goodbye_.reset();
  piece_ = {};
  frame_left_ = 0;
  header_sent_ = 0;
  done_ = false;
}

size_t FrameWriter::next(std::span<iovec> parts) const {
  LOCKSTEP_CHECK(!done_ && parts.size() >= 2);
  size_t count = 0;
  if (header_sent_ < sizeof(header_)) {
    auto* header = reinterpret_cast<std::byte*>(const_cast<FrameHeader*>(&header_));
    parts[count++] = {.iov_base = header + header_sent_, .iov_len = sizeof(header_) - header_sent_};
  }
  return count + list_runs(piece_, frame_left_, parts.subspan(count));
}

void FrameWriter::sent(size_t bytes) {
  const size_t of_header = std::min(bytes, sizeof(header_) - header_sent_);
  header_sent_ += of_header;
  const auto of_frame = static_cast<int64_t>(bytes - of_header);
  LOCKSTEP_CHECK(of_frame <= frame_left_);
  frame_left_ -= of_frame;
  drop_front(piece_, of_frame);
  if (header_sent_ < sizeof(header_) || frame_left_ > 0) return;
  if (piece_.bytes > 0) return start_frame();
  if (goodbye_.has_value()) return start_goodbye();
  done_ = true;
}

// --- Receiving

void FrameReader::expect(const Call& call, const RowBytes& piece) {
  LOCKSTEP_CHECK(done_);
  call_ = call;
  piece_ = piece;
  done_ = false;
  start_frame();
}

void FrameReader::start_frame() {
  frame_left_ = std::min(piece_.bytes, kFrameBytes);
  header_received_ = 0;
  checksum_ = 0;
}

size_t FrameReader::next(std::span<iovec> parts) {
  LOCKSTEP_CHECK(!done_ && parts.size() >= 2);
  if (header_received_ == sizeof(header_)) return list_runs(piece_, frame_left_, parts);
  parts[0] = {.iov_base = reinterpret_cast<std::byte*>(&header_) + header_received_,
              .iov_len = sizeof(header_) - header_received_};
  const size_t first = std::min(first_.size(), static_cast<size_t>(frame_left_));
  parts[1] = {.iov_base = first_.data(), .iov_len = first};
  return first > 0 ? 2 : 1;
}

absl::Status FrameReader::received(size_t bytes) {
  if (header_received_ < sizeof(header_)) return take_header(bytes);
  return take(static_cast<int64_t>(bytes));
}

absl::Status FrameReader::take_header(size_t bytes) {
  const size_t of_header = std::min(bytes, sizeof(header_) - header_received_);
  header_received_ += of_header;
  if (header_received_ < sizeof(header_)) return absl::OkStatus();
  RETURN_IF_ERROR(check_header());
  ++frames_;
  const auto of_frame = static_cast<int64_t>(bytes - of_header);
  LOCKSTEP_CHECK(of_frame <= frame_left_);
  unpack(first_.data(), {piece_.rows, piece_.begin, of_frame});
  return take(of_frame);  // An empty frame ends here.
}

absl::Status FrameReader::check_header() {
  const bool goodbye = header_.magic == FrameHeader::kGoodbye;
  if (header_.magic != FrameHeader::kMagic && !goodbye) {
    return unavailable("sent bytes that begin no frame: 0x{:08x}", header_.magic);
  }
  const uint32_t found = header_checksum(header_);
  if (header_.header_checksum != found) {
    return unavailable(
        "sent a frame whose header was changed on its way: CRC32C must be 0x{:08x}, found 0x{:08x}",
        header_.header_checksum, found);
  }
  if (!goodbye && header_.call != call_)
    return absl::InternalError(describe_other(header_.call, call_));
  if (header_.number != frames_) {
    return unavailable("sent frame {}, but frame {} was next", header_.number, frames_);
  }
  if (goodbye) {
    const auto failure = static_cast<Failure>(header_.call.kind);
    const bool lost = failure == Failure::kGone || failure == Failure::kLeft;
    goodbye_ = {.failure = lost ? failure : Failure::kAborted,
                .number = static_cast<int64_t>(header_.call.number % kGoodbyeRanks)};
    return absl::AbortedError("said goodbye");
  }
  if (header_.bytes != static_cast<uint64_t>(frame_left_)) {
    return absl::InternalError(fmt::format("sent a frame of {} bytes in {}, must be {}",
                                           header_.bytes, describe(call_), frame_left_));
  }
  return absl::OkStatus();
}

absl::Status FrameReader::take(int64_t bytes) {
  LOCKSTEP_CHECK(bytes <= frame_left_);
  for_each_run({piece_.rows, piece_.begin, bytes},
               [&](const std::byte* run, int64_t, int64_t length) {
                 checksum_ = crc32c(run, static_cast<size_t>(length), checksum_);
               });
  frame_left_ -= bytes;
  drop_front(piece_, bytes);
  if (frame_left_ > 0) return absl::OkStatus();
  if (checksum_ != header_.checksum) {
    return unavailable(
        "sent a frame whose bytes were changed on their way: CRC32C must be 0x{:08x}, found "
        "0x{:08x}",
        header_.checksum, checksum_);
  }
  if (piece_.bytes > 0) {
    start_frame();
  } else {
    done_ = true;
  }
  return absl::OkStatus();
}

}  // namespace lockstep
