// SPDX-License-Identifier: Apache-2.0
// HTTP/2 as bytes, for tests that send what no gRPC client sends.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::testing::http2 {

enum FrameType : uint8_t {
  kData = 0,
  kHeaders = 1,
  kPriority = 2,
  kResetStream = 3,
  kSettings = 4,
  kPing = 6,
  kWindowUpdate = 8,
  kContinuation = 9,
};
constexpr uint8_t kEndStream = 1;
constexpr uint8_t kEndHeaders = 4;

inline std::string big_endian(uint32_t value, int bytes) {
  std::string text;
  for (int i = bytes - 1; i >= 0; --i) text.push_back(static_cast<char>(value >> (8 * i)));
  return text;
}

inline std::string frame(FrameType type, uint8_t flags, uint32_t stream,
                         const std::string& payload) {
  return big_endian(static_cast<uint32_t>(payload.size()), 3) + static_cast<char>(type) +
         static_cast<char>(flags) + big_endian(stream, 4) + payload;
}

// The bytes with which a client begins a connection.
inline std::string preface() {
  return "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(kSettings, 0, 0, "");
}

// A length as HPACK encodes it: 7 bits and continuation bytes.
inline std::string hpack_length(size_t length) {
  if (length < 127) return std::string(1, static_cast<char>(length));
  std::string text(1, '\x7f');
  for (length -= 127; length >= 128; length /= 128) {
    text.push_back(static_cast<char>(length % 128 + 128));
  }
  return text + static_cast<char>(length);
}

using Headers = std::vector<std::pair<std::string, std::string>>;

// Headers as literals without indexing.
inline std::string hpack(const Headers& headers) {
  std::string block;
  for (const auto& [name, value] : headers) {
    block += std::string(1, '\0') + hpack_length(name.size()) + name + hpack_length(value.size()) +
             value;
  }
  return block;
}

inline Headers call_headers(const std::string& path) {
  return {{":method", "POST"},    {":scheme", "http"}, {":path", path},
          {":authority", "test"}, {"te", "trailers"},  {"content-type", "application/grpc"}};
}

}  // namespace lockstep::testing::http2
