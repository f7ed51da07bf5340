// SPDX-License-Identifier: Apache-2.0
// How a rank's part of a collective travels between hosts: cut into frames, each a header and some
// bytes. Both ends know from their own arguments how many bytes of which call come next, so a
// header only confirms it: no size is ever taken from the wire, and nothing goes where it belongs
// before the header that announces it was checked. The last frame of a connection may be a goodbye:
// the group has ended, and why. There is no socket here; frames come and go as bytes.
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

// A frame's bytes stay in L2 between the checksum and the system call.
inline constexpr int64_t kFrameBytes = 64 * 1024;

// Little endian, as all machines that this is built for.
struct FrameHeader {
  static constexpr uint32_t kMagic = 0x31664b4cu;    // "LKf1": the digit is the layout's.
  static constexpr uint32_t kGoodbye = 0x31674b4cu;  // "LKg1": no bytes follow, nor another frame.

  uint32_t magic = kMagic;
  uint32_t bytes = 0;   // That follow.
  uint64_t number = 0;  // Of the frame on its connection, from 0.
  Call call;
  uint32_t checksum = 0;         // CRC32C of these bytes.
  uint32_t header_checksum = 0;  // CRC32C of all above.
};
static_assert(sizeof(FrameHeader) == 88 && std::is_trivially_copyable_v<FrameHeader>);

// What leaves on one connection.
class FrameWriter {
 public:
  // A piece that all are done with: one frame or several; one without bytes if there are none. Its
  // memory stays as it is until done().
  void begin(const Call& call, const RowBytes& piece);
  // Nothing follows but that, once a frame that has begun is complete.
  void say_goodbye(const Goodbye& goodbye);
  bool done() const { return done_; }

  // Where the next bytes are: fills `parts`, and gives how many it filled. Not if done().
  size_t next(std::span<iovec> parts) const;
  // So many of them are gone.
  void sent(size_t bytes);

 private:
  void start_frame();
  void start_goodbye();

  FrameHeader header_;
  RowBytes piece_;               // What is left, the frame's bytes included.
  std::optional<Call> goodbye_;  // To be sent next.
  uint64_t frames_ = 0;          // Begun.
  size_t header_sent_ = 0;       // Bytes.
  int64_t frame_left_ = 0;
  bool done_ = true;
};

// What arrives on one connection.
class FrameReader {
 public:
  // The piece of this call comes next, and goes there.
  void expect(const Call& call, const RowBytes& piece);
  bool done() const { return done_; }

  // Where the next bytes go, never more than belong there: a header's, with the frame's first ones
  // to a place of its own, or a frame's after its header was found right. `parts` has two or more.
  // Not if done().
  size_t next(std::span<iovec> parts);
  // So many have come. kUnavailable: they were changed on their way. kInternal: the other side is
  // in another call. kAborted: it said goodbye. As clauses about the other side; nothing more may
  // be read after an error.
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
  // A frame's first bytes come with its header, which saves a system call; they are copied.
  std::array<std::byte, 8 * 1024> first_;
};

}  // namespace lockstep
