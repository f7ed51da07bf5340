// SPDX-License-Identifier: Apache-2.0
// The crc32 instruction has a latency of three cycles and a throughput of one per cycle, so the
// checksums of three blocks are computed side by side. To join them, a block's state is first
// extended by one block of zeros per later block. A checksum is linear, so one such extension is
// one table look-up per byte of the state. Then the states are combined by xor (Gopal et al., "Fast
// CRC Computation for iSCSI Polynomial Using CRC32 Instruction", Intel 2011).
#include "base/numbers/crc32c.h"

#include <array>
#include <cstring>

namespace lockstep {
namespace {

constexpr uint32_t kPolynomial = 0x82f63b78u;  // Bits reversed.

using Table = std::array<uint32_t, 256>;

constexpr Table make_table() {
  Table table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t state = byte;
    for (int bit = 0; bit < 8; ++bit) state = state >> 1 ^ (state & 1 ? kPolynomial : 0);
    table[byte] = state;
  }
  return table;
}

constexpr Table kTable = make_table();

// A state is a checksum without the inversions at the beginning and at the end.
uint32_t advance(uint32_t state, const unsigned char* data, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) state = state >> 8 ^ kTable[(state ^ data[i]) & 0xff];
  return state;
}

#if defined(__x86_64__)

constexpr size_t kBlock = 1024;

constexpr uint32_t after_zeros(uint32_t state) {
  for (size_t i = 0; i < kBlock; ++i) state = state >> 8 ^ kTable[state & 0xff];
  return state;
}

using Shift = std::array<Table, 4>;

constexpr Shift make_shift() {
  std::array<uint32_t, 32> of_bit{};
  for (int bit = 0; bit < 32; ++bit) of_bit[bit] = after_zeros(uint32_t{1} << bit);
  Shift shift{};
  for (int byte = 0; byte < 4; ++byte) {
    for (uint32_t value = 0; value < 256; ++value) {
      for (int bit = 0; bit < 8; ++bit) {
        if (value >> bit & 1) shift[byte][value] ^= of_bit[8 * byte + bit];
      }
    }
  }
  return shift;
}

constexpr Shift kShift = make_shift();

uint32_t shift(uint32_t state) {
  return kShift[0][state & 0xff] ^ kShift[1][state >> 8 & 0xff] ^ kShift[2][state >> 16 & 0xff] ^
         kShift[3][state >> 24];
}

uint64_t word_at(const unsigned char* data) {
  uint64_t word;
  std::memcpy(&word, data, sizeof(word));
  return word;
}

__attribute__((target("sse4.2"))) uint32_t advance_sse42(uint32_t state, const unsigned char* data,
                                                         size_t bytes) {
  uint64_t a = state;
  for (; bytes >= 3 * kBlock; bytes -= 3 * kBlock, data += 3 * kBlock) {
    uint64_t b = 0, c = 0;
    for (size_t i = 0; i < kBlock; i += 8) {
      a = __builtin_ia32_crc32di(a, word_at(data + i));
      b = __builtin_ia32_crc32di(b, word_at(data + kBlock + i));
      c = __builtin_ia32_crc32di(c, word_at(data + 2 * kBlock + i));
    }
    a = shift(shift(static_cast<uint32_t>(a)) ^ static_cast<uint32_t>(b)) ^ c;
  }
  for (; bytes >= 8; bytes -= 8, data += 8) a = __builtin_ia32_crc32di(a, word_at(data));
  state = static_cast<uint32_t>(a);
  for (; bytes > 0; --bytes, ++data) state = __builtin_ia32_crc32qi(state, *data);
  return state;
}

#endif

}  // namespace

uint32_t crc32c_portable(const void* data, size_t bytes, uint32_t before) {
  return ~advance(~before, static_cast<const unsigned char*>(data), bytes);
}

uint32_t crc32c(const void* data, size_t bytes, uint32_t before) {
#if defined(__x86_64__)
  static const bool has_instruction = __builtin_cpu_supports("sse4.2") != 0;
  if (has_instruction) {
    return ~advance_sse42(~before, static_cast<const unsigned char*>(data), bytes);
  }
#endif
  return crc32c_portable(data, bytes, before);
}

}  // namespace lockstep
