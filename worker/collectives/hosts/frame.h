// SPDX-License-Identifier: Apache-2.0
// How a rank's part of a collective is sent between hosts: as frames, each a header and some bytes.
// Both ends know from their own arguments which call comes next and how many bytes it has, and a
// header only confirms this. No size is ever taken from the wire, and no byte of a frame is put in
// its place before the frame's header is checked. The last frame of a connection may be a goodbye,
// which says that the group has ended, and why. This file has no socket; frames are bytes.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>

#include "absl/status/status.h"
#include "worker/collectives/host/region.h"
#include "worker/collectives/hosts/call.h"
#include "worker/collectives/rows.h"

namespace lockstep {

// Bytes per frame: they stay in L2 between the checksum and the system call.
inline constexpr int64_t kFrameBytes = 64 * 1024;

// Little endian, like all machines that this is built for.
struct FrameHeader {
  static constexpr uint32_t kMagic = 0x31664b4cu;    // "LKf1": 1 is the layout's version.
  static constexpr uint32_t kGoodbye = 0x31674b4cu;  // "LKg1": no bytes and no frame follow.

  uint32_t magic = kMagic;
  uint32_t bytes = 0;   // The bytes that follow.
  uint64_t number = 0;  // The frame's number on its connection, from 0.
  Call call;
  uint32_t checksum = 0;         // CRC32C of the bytes that follow.
  uint32_t header_checksum = 0;  // CRC32C of all above.
};
static_assert(sizeof(FrameHeader) == 88 && std::is_trivially_copyable_v<FrameHeader>);

// The sending side of one connection.
class FrameWriter {
 public:
  // Begins to send a piece; only if done(). A piece is sent as one or more frames, an empty piece
  // as one frame without bytes. The piece's memory must not change until done().
  void begin(const Call& call, const RowBytes& piece);
  // Sends `goodbye` as the last frame, when the current frame is complete.
  void send_goodbye(const Goodbye& goodbye);
  bool done() const { return done_; }

  // Fills `parts` with the places of the next bytes, and returns how many parts it filled. Must not
  // be called if done().
  size_t next(std::span<iovec> parts) const;
  // Reports that this many of these bytes were sent.
  void sent(size_t bytes);

 private:
  void start_frame();
  void start_goodbye();

  FrameHeader header_;
  RowBytes piece_;               // Bytes not yet sent, this frame's included.
  std::optional<Call> goodbye_;  // To be sent next.
  uint64_t frames_ = 0;          // Frames that were begun.
  size_t header_sent_ = 0;       // In bytes.
  int64_t frame_left_ = 0;
  bool done_ = true;
};

// The receiving side of one connection.
class FrameReader {
 public:
  // Says that the other side sends `piece` next, in this call. The bytes that arrive are stored in
  // the piece's memory.
  void expect(const Call& call, const RowBytes& piece);
  bool done() const { return done_; }

  // Fills `parts` (two or more) with places for the next bytes, and returns how many parts it
  // filled. Until a frame's header is complete, these are places for the header and, in a separate
  // buffer, for the frame's first bytes. After the header was verified, they are the memory of the
  // piece where the frame's other bytes belong. Must not be called if done().
  size_t next(std::span<iovec> parts);
  // Reports that this many bytes were received. kUnavailable: they were changed on their way.
  // kInternal: the other side is in another call. kAborted: it said goodbye. Messages are clauses
  // about the other side; nothing more may be read after an error.
  absl::Status received(size_t bytes);
  const std::optional<Goodbye>& goodbye() const { return goodbye_; }

 private:
  absl::Status check_header();
  absl::Status take_header(size_t bytes);
  absl::Status take(int64_t bytes);
  void start_frame();

  FrameHeader header_;
  Call call_;
  RowBytes piece_;
  uint64_t frames_ = 0;
  size_t header_received_ = 0;
  int64_t frame_left_ = 0;
  uint32_t checksum_ = 0;
  bool done_ = true;
  std::optional<Goodbye> goodbye_;
  // A frame's first bytes are read with its header, which saves a system call, and then copied.
  std::array<std::byte, 8 * 1024> first_;
};

}  // namespace lockstep
