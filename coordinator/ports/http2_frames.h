// SPDX-License-Identifier: Apache-2.0
// Finds the frames in the bytes of one direction of an HTTP/2 connection (RFC 9113, section 4.1).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace lockstep {

// A frame's header.
struct Http2Frame {
  enum Type : uint8_t { kData = 0, kHeaders = 1, kResetStream = 3, kContinuation = 9 };

  bool ends_stream() const {
    return (type == kData || type == kHeaders) && (flags & kEndStreamFlag) != 0;
  }

  static constexpr uint8_t kEndStreamFlag = 1;
  uint32_t bytes = 0;  // Its payload.
  uint8_t type = 0;
  uint8_t flags = 0;
  uint32_t stream = 0;  // 0: the connection.
};

// Payloads are skipped. One thread.
class Http2Frames {
 public:
  static constexpr size_t kPrefaceBytes = 24;  // A client's bytes begin with the preface.
  explicit Http2Frames(size_t preface_bytes) : to_skip_(preface_bytes) {}

  // Calls `on_frame(frame)` at the end of each header.
  template <typename OnFrame>
  void read(std::string_view bytes, const OnFrame& on_frame) {
    while (!bytes.empty()) {
      const size_t skipped = std::min(to_skip_, bytes.size());
      to_skip_ -= skipped;
      bytes.remove_prefix(skipped);
      if (bytes.empty()) break;
      header_[header_bytes_++] = static_cast<unsigned char>(bytes.front());
      bytes.remove_prefix(1);
      if (header_bytes_ < header_.size()) continue;
      header_bytes_ = 0;
      const Http2Frame frame = {.bytes = number(0, 3),
                                .type = header_[3],
                                .flags = header_[4],
                                .stream = number(5, 4) & 0x7fffffffU};
      to_skip_ = frame.bytes;
      on_frame(frame);
    }
  }

 private:
  uint32_t number(size_t begin, size_t bytes) const {
    uint32_t value = 0;
    for (size_t i = 0; i < bytes; ++i) value = value << 8 | header_[begin + i];
    return value;
  }

  std::array<unsigned char, 9> header_ = {};
  size_t header_bytes_ = 0;
  size_t to_skip_;  // The rest of the preface, or of a payload.
};

}  // namespace lockstep
