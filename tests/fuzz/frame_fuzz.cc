// SPDX-License-Identifier: Apache-2.0
// The bytes that a peer on another host sends. The first four bytes of an input choose the expected
// call and how the stream is cut; the others are the stream. In the stream, 0xff 0xfe and a third
// byte become a valid header, in which the third byte may change one byte. So later headers are
// reached, too.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/numbers/crc32c.h"
#include "worker/collectives/hosts/frame.h"

namespace lockstep {
namespace {

constexpr std::byte kUntouched{0xa5};

std::string stream_of(const uint8_t* data, size_t size, const Call& call, int64_t bytes) {
  std::string stream;
  uint64_t frames = 0;
  for (size_t i = 0; i < size; ++i) {
    if (i + 2 >= size || data[i] != 0xff || data[i + 1] != 0xfe) {
      stream += static_cast<char>(data[i]);
      continue;
    }
    FrameHeader header{.bytes = static_cast<uint32_t>(std::min(bytes, kFrameBytes)),
                       .number = frames++,
                       .call = call};
    i += 2;
    reinterpret_cast<uint8_t*>(&header)[data[i] % sizeof(header)] ^= data[i] / sizeof(header);
    header.header_checksum = crc32c(&header, offsetof(FrameHeader, header_checksum));
    stream.append(reinterpret_cast<const char*>(&header), sizeof(header));
  }
  return stream;
}

// Writes the stream to the reader's parts, at most `max` bytes at a time.
void read(FrameReader& reader, std::string stream, size_t max) {
  while (!reader.done() && !stream.empty()) {
    std::array<iovec, 3> parts;
    size_t taken = 0;
    for (size_t i = 0, count = reader.next(parts); i < count; ++i) {
      LOCKSTEP_CHECK(parts[i].iov_len > 0);
      const size_t bytes = std::min({parts[i].iov_len, stream.size() - taken, max - taken});
      std::memcpy(parts[i].iov_base, stream.data() + taken, bytes);
      taken += bytes;
    }
    stream.erase(0, taken);
    const absl::Status status = reader.received(taken);
    LOCKSTEP_CHECK(status.message().size() < 1000);
    if (!status.ok()) return;
  }
}

}  // namespace
}  // namespace lockstep

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep;
  if (size < 4) return 0;
  const int64_t rows = data[0] % 8, row_bytes = data[1], stride = row_bytes + data[2] % 4;
  const Call call{.kind = Call::kAllGather, .epoch = 1, .number = 1, .rows = rows};
  std::vector<std::byte> memory(rows * stride, kUntouched);
  FrameReader reader;
  reader.expect(call, {{memory.data(), row_bytes, stride}, 0, rows * row_bytes});
  read(reader, stream_of(data + 4, size - 4, call, rows * row_bytes), 1 + data[3]);
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t at = row_bytes; at < stride; ++at) {
      LOCKSTEP_CHECK(memory[row * stride + at] == kUntouched);
    }
  }
  return 0;
}
