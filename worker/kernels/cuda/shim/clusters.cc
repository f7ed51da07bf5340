// SPDX-License-Identifier: Apache-2.0
// Barriers, copies of tiles and products of a cluster's blocks.
#include "worker/kernels/cuda/shim/clusters.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "worker/kernels/cuda/shim/tensor_core.h"

namespace lockstep::shim {
namespace {

constexpr int kPiece = 16;  // Bytes.

// The barrier's 8 bytes.
struct Barrier {
  int32_t bytes;  // Bytes that are expected and have not come.
  uint8_t count;
  uint8_t missing;  // Arrivals that have not come.
  uint16_t phase;

  void advance() {
    if (missing > 0 || bytes != 0) return;
    ++phase;
    missing = count;
  }
};
static_assert(sizeof(Barrier) == 8);

Barrier& barrier_at(uint32_t offset, int block) {
  LOCKSTEP_CHECK(offset % sizeof(Barrier) == 0);
  return *reinterpret_cast<Barrier*>(shared_of(block) + offset);
}

// Bits 4 to 6 of an offset are combined with bits 7 to 9.
uint32_t swizzled(uint32_t offset) { return offset ^ (offset >> 7 & 7) << 4; }

// Copies one row of a box, from one of its elements on: `bytes` of it exist, all others are zeros.
void copy_row(std::byte* shared, uint32_t to, const std::byte* from, int64_t bytes, int row_bytes,
              bool swizzle) {
  for (int at = 0; at < row_bytes; at += kPiece) {
    const uint32_t place = to + static_cast<uint32_t>(at);
    std::byte* const piece = shared + (swizzle ? swizzled(place) : place);
    std::memset(piece, 0, kPiece);
    const int64_t there = std::min<int64_t>(kPiece, bytes - at);
    if (there > 0) std::memcpy(piece, from + at, static_cast<size_t>(there));
  }
}

void copy_box(std::byte* shared, uint32_t to, const TensorMap& map, int col, int row) {
  const int row_bytes = map.box_cols * map.element_bytes;
  for (int r = 0; r < map.box_rows; ++r) {
    const bool there = row + r < map.rows && col < map.cols;
    const int64_t bytes = there ? (map.cols - col) * map.element_bytes : 0;
    const std::byte* const from =
        there ? map.data + (row + r) * map.row_bytes + int64_t{col} * map.element_bytes : nullptr;
    copy_row(shared, to + static_cast<uint32_t>(r * row_bytes), from, bytes, row_bytes,
             map.swizzled);
  }
}

// A thread's numbers of A, and the warp's rows of A of which it has sums.
struct OwnOfA {
  Factors<4> rows[2];
};
struct RowsOfA {
  StepFactors rows[2];
};

RowsOfA rows_of_a(const uint32_t (&a)[4], const Format& format) {
  OwnOfA own;
  for (int word = 0; word < 4; ++word) {
    for (int i = 0; i < 2; ++i) {
      own.rows[word % 2].set(word / 2 * 2 + i,
                             format.widen(static_cast<uint16_t>(a[word] >> i * 16)),
                             format.min_exponent);
    }
  }
  give(&own, sizeof(own));
  RowsOfA all;
  for (int part = 0; part < 4; ++part) {
    const int lane = static_cast<int>(threadIdx.x % 32) / 4 * 4 + part;
    const auto& of_lane = *static_cast<const OwnOfA*>(given(lane));
    for (int i = 0; i < 2; ++i) all.rows[i].set_part(part, of_lane.rows[i]);
  }
  return all;
}

// Reads sixteen numbers of an operand from a tile's swizzled memory. Number k is at offset_of(k).
// They are stored in the order of rows_of_a(), in which lane t's four numbers, 2t, 2t + 1, 2t + 8
// and 2t + 9, are neighbours.
template <typename OffsetOf>
StepFactors factors_at(const std::byte* shared, const OffsetOf& offset_of, const Format& format) {
  StepFactors factors;
  for (int k = 0; k < 16; ++k) {
    uint16_t bits = 0;
    std::memcpy(&bits, shared + swizzled(offset_of(static_cast<uint32_t>(k))), sizeof(bits));
    factors.set(k % 8 / 2 * 4 + k / 8 * 2 + k % 2, format.widen(bits), format.min_exponent);
  }
  return factors;
}

// A row of A or B.
StepFactors row_at(const std::byte* shared, uint32_t begin, int row, const Format& format) {
  const uint32_t first = begin + static_cast<uint32_t>(row) * 128;
  return factors_at(
      shared, [first](uint32_t k) { return first + k * 2; }, format);
}

// A descriptor's fields, in bytes.
uint32_t address_of(uint64_t descriptor) { return static_cast<uint32_t>(descriptor & 0x3fff) << 4; }
uint32_t panel_of(uint64_t descriptor) {
  return static_cast<uint32_t>(descriptor >> 16 & 0x3fff) << 4;
}
uint32_t eight_rows_of(uint64_t descriptor) {
  return static_cast<uint32_t>(descriptor >> 32 & 0x3fff) << 4;
}
void check_rows(uint64_t descriptor) {
  LOCKSTEP_CHECK(descriptor >> 62 == 1 && eight_rows_of(descriptor) == 1024);
}

// The running thread's sums of its warp's two rows of A with `rows` rows or columns of B.
template <typename OfB>
void add_products(float* sums, int rows, const RowsOfA& of_a, const OfB& of_b, bool keep,
                  int pair) {
  for (int at = 0; at < rows / 4; ++at) {
    const StepFactors b = of_b(at / 2 * 8 + pair + at % 2);
    for (int half = 0; half < 2; ++half) {
      float& sum = sums[at / 2 * 4 + half * 2 + at % 2];
      sum = add_step(of_a.rows[half], b, keep ? sum : 0.0f);
    }
  }
}

int own_pair() { return static_cast<int>(threadIdx.x % 4) * 2; }

}  // namespace

void barrier_init(uint32_t offset, int count) {
  const auto arrivals = static_cast<uint8_t>(count);
  barrier_at(offset, block_in_cluster()) = {
      .bytes = 0, .count = arrivals, .missing = arrivals, .phase = 0};
}

void barrier_expect(uint32_t offset, int bytes) {
  barrier_at(offset, block_in_cluster()).bytes += bytes;
  barrier_arrive(offset, block_in_cluster());
}

void barrier_arrive(uint32_t offset, int block) {
  Barrier& barrier = barrier_at(offset, block);
  LOCKSTEP_CHECK(barrier.missing > 0);
  --barrier.missing;
  barrier.advance();
}

void barrier_wait(uint32_t offset, unsigned parity) {
  const auto ended = [&barrier = barrier_at(offset, block_in_cluster()), parity] {
    return barrier.phase % 2 != parity;
  };
  wait_until(
      {&ended, [](const void* self) { return (*static_cast<const decltype(ended)*>(self))(); }});
}

void load_tile(uint32_t to, const TensorMap& map, int col, int row, uint32_t barrier,
               unsigned mask) {
  LOCKSTEP_CHECK(to % 128 == 0 && (!map.swizzled || to % 1024 == 0));
  LOCKSTEP_CHECK(!map.swizzled || map.box_cols * map.element_bytes == 128);
  do_late([=, blocks = blocks_in_cluster()] {
    for (int block = 0; block < blocks; ++block) {
      if ((mask >> block & 1) == 0) continue;
      copy_box(shared_of(block), to, map, col, row);
      Barrier& of_block = barrier_at(barrier, block);
      of_block.bytes -= map.box_rows * map.box_cols * map.element_bytes;
      of_block.advance();
    }
  });
}

void multiply_rows(float* sums, int rows, const uint32_t (&a)[4], uint64_t descriptor, bool keep,
                   const Format& format) {
  check_rows(descriptor);
  add_product([=, of_a = rows_of_a(a, format), shared = dynamic_shared(), pair = own_pair()] {
    const auto row = [&](int r) { return row_at(shared, address_of(descriptor), r, format); };
    add_products(sums, rows, of_a, row, keep, pair);
  });
}

void multiply_shared_rows(float* sums, int rows, uint64_t a, uint64_t b, bool keep,
                          const Format& format) {
  check_rows(a);
  check_rows(b);
  const int own_row = static_cast<int>(threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4);
  add_product([=, shared = dynamic_shared(), pair = own_pair()] {
    RowsOfA of_a;
    for (int half = 0; half < 2; ++half) {
      of_a.rows[half] = row_at(shared, address_of(a), own_row + half * 8, format);
    }
    const auto row = [&](int r) { return row_at(shared, address_of(b), r, format); };
    add_products(sums, rows, of_a, row, keep, pair);
  });
}

void multiply_turned(float* sums, int cols, const uint32_t (&a)[4], uint64_t descriptor, bool keep,
                     const Format& format) {
  LOCKSTEP_CHECK(descriptor >> 62 == 1);
  add_product([=, of_a = rows_of_a(a, format), shared = dynamic_shared(), pair = own_pair()] {
    const auto column = [&](int c) {
      const auto col = static_cast<uint32_t>(c);
      const uint32_t first =
          address_of(descriptor) + col / 64 * panel_of(descriptor) + col % 64 * 2;
      return factors_at(
          shared,
          [&](uint32_t k) { return first + k / 8 * eight_rows_of(descriptor) + k % 8 * 128; },
          format);
    };
    add_products(sums, cols, of_a, column, keep, pair);
  });
}

}  // namespace lockstep::shim
