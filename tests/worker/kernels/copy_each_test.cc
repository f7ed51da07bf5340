// SPDX-License-Identifier: Apache-2.0
// Copies of many matrices at once, over the shim.
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <vector>

#include "worker/kernels/device.h"

namespace lockstep::cuda_shim {

const char* copy_each(std::span<const RowCopy> copies, void* queue);

namespace {

// Copies `count` matrices, whose rows have `cols` units of `unit` bytes, side by side into one
// matrix. `shift` moves the addresses of both by some bytes.
void expect_copied(int64_t unit, int64_t count, int64_t rows, int64_t cols, int64_t shift) {
  const int64_t row_bytes = cols * unit, stride = count * row_bytes + unit;
  std::vector<uint8_t> parts(static_cast<size_t>(count * rows * row_bytes + shift));
  std::iota(parts.begin(), parts.end(), uint8_t{1});
  std::vector<uint8_t> whole(static_cast<size_t>(rows * stride + shift), 0), wanted = whole;
  std::vector<RowCopy> copies;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t own_rows = i == 1 ? 0 : rows;  // One matrix is empty.
    RowCopy copy{.to = whole.data() + shift + i * row_bytes,
                 .to_stride = stride,
                 .from = parts.data() + shift + i * rows * row_bytes,
                 .from_stride = row_bytes,
                 .row_bytes = i == 2 ? 0 : row_bytes,
                 .rows = own_rows};
    for (int64_t row = 0; row < copy.rows && copy.row_bytes > 0; ++row) {
      std::memcpy(wanted.data() + shift + i * row_bytes + row * stride,
                  static_cast<const uint8_t*>(copy.from) + row * row_bytes,
                  static_cast<size_t>(row_bytes));
    }
    copies.push_back(copy);
  }
  EXPECT_EQ(copy_each(copies, nullptr), nullptr);
  EXPECT_EQ(whole, wanted) << unit << " " << count << " " << rows << " " << cols << " " << shift;
}

TEST(CopyEachTest, OneCallCopiesLikeManySingleCopies) {
  for (const int64_t unit : {1, 2, 4, 6, 8, 16}) {
    for (const int64_t shift : {0, 1}) {
      expect_copied(unit, 3, 5, 7, shift);
      expect_copied(unit, 1, 1, 300, shift);
      expect_copied(unit, 40, 2, 3, shift);  // More matrices than one launch takes.
    }
  }
  EXPECT_EQ(copy_each({}, nullptr), nullptr);
}

}  // namespace
}  // namespace lockstep::cuda_shim
