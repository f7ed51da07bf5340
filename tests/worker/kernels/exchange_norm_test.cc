// SPDX-License-Identifier: Apache-2.0
// A sum over ranks fused with the residual's addition and the norm, compared with these three
// operations, run one after another.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/worker/kernels/exchange_ranks.h"
#include "worker/kernels/cuda/shim/table.h"
#include "worker/kernels/find.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;

class ExchangeNormTest : public ExchangeTest {};

const KernelEntry& add_norm_of(Kind kind) {
  const auto table = kind == Kind::kGpu ? cuda_kernels() : cuda_shim_kernels();
  return *std::ranges::find(table, Op::kAddNorm, &KernelEntry::op);
}

struct NormCase {
  int64_t rows;
  int64_t cols;
  DType dtype;      // The type of the norm's output.
  int64_t padding;  // Columns between rows.
  bool in_place;    // The residual plus the sum overwrites the sum.
};

// A rank's operands of add_norm, where in[1] is summed over ranks first.
class NormOperands {
 public:
  NormOperands(Device& device, int rank, const NormCase& c) : device_(device), c_(c) {
    const std::vector<float> residual = addends(50, count()), weight = addends(51, c.cols);
    const std::vector<float> part = addends(rank, count());
    for (auto* values : {&residual_, &sum_, &total_, &norm_}) {
      *values = DeviceMemory(device, count() * kFloat);
    }
    weight_ = DeviceMemory(device, c.cols * kFloat);
    device.copy_in(residual_.data(), residual.data(), count() * kFloat);
    device.copy_in(sum_.data(), part.data(), count() * kFloat);
    device.copy_in(weight_.data(), weight.data(), c.cols * kFloat);
    EXPECT_EQ(device.synchronize(), nullptr);
  }
  KernelArgs args() {
    KernelArgs args;
    args.in[0] = view(residual_, DType::kF32);
    args.in[1] = view(sum_, DType::kF32);
    args.in[2] = {weight_.data(), 1, c_.cols, c_.cols, DType::kF32};
    args.out[0] = view(c_.in_place ? sum_ : total_, DType::kF32);
    args.out[1] = view(norm_, c_.dtype);
    args.attrs = NormAttrs{.eps = 1e-5f};
    args.queue = device_.queue();
    return args;
  }
  // The contents of the operands, padding included.
  std::vector<uint32_t> bits() {
    std::vector<uint32_t> bits(static_cast<size_t>(4 * count()));
    int64_t at = 0;
    for (auto* values : {&residual_, &sum_, &total_, &norm_}) {
      device_.copy_out(bits.data() + at, values->data(), count() * kFloat);
      at += count();
    }
    EXPECT_EQ(device_.synchronize(), nullptr);
    return bits;
  }

 private:
  int64_t count() const { return c_.rows * (c_.cols + c_.padding); }
  TensorView view(const DeviceMemory& memory, DType dtype) const {
    return {memory.data(), c_.rows, c_.cols, c_.cols + c_.padding, dtype};
  }
  Device& device_;
  const NormCase c_;
  DeviceMemory residual_, sum_, total_, norm_, weight_;
};

void expect_norms(Ranks& ranks, Kind kind, const NormCase& c) {
  std::vector<NormOperands> together, apart;
  for (int r = 0; r < ranks.count(); ++r) {
    together.emplace_back(ranks.device(r), r, c);
    apart.emplace_back(ranks.device(r), r, c);
  }
  for (int r = 0; r < ranks.count(); ++r) {
    EXPECT_EQ(ranks.access(r).reduce_add_norm(ranks.group(r), together[r].args()), nullptr);
    const TensorView sum = apart[r].args().in[1];
    ranks.reduce(r, static_cast<std::byte*>(sum.data), c.rows, c.cols, sum.stride);
  }
  ranks.synchronize();
  for (int r = 0; r < ranks.count(); ++r) {
    EXPECT_EQ(add_norm_of(kind).run(apart[r].args()), nullptr);
    ASSERT_TRUE(together[r].bits() == apart[r].bits())
        << "rank " << r << " of " << ranks.count() << ", " << c.rows << " x " << c.cols;
  }
}

TEST_P(ExchangeNormTest, AFusedSumAndNormHasTheBitsOfASumThenANorm) {
  for (const int count : {1, 2, 3, 5}) {
    if (count > max_ranks()) break;
    Ranks ranks(GetParam(), count, 20s);
    for (const int64_t rows : {1, 2, 33}) {
      for (const int64_t cols : {1, 64, 103, 300}) {
        const bool odd = rows % 2 == 1;
        expect_norms(ranks, GetParam(),
                     {rows, cols, odd ? DType::kBF16 : DType::kF32, odd ? 0 : 1, cols % 3 == 0});
      }
    }
  }
}

// The cases: 256 short rows, so that a block of threads computes several; and rows around and above
// the size of a slot.
TEST_P(ExchangeNormTest, AFusedSumAndNormOfManyOrWideRowsHasTheSameBits) {
  for (const int count : {2, std::min(3, max_ranks())}) {
    Ranks ranks(GetParam(), count, 20s);
    expect_norms(ranks, GetParam(), {256, 103, DType::kBF16, 1, false});
    for (const int64_t cols : {4096, 4097, 8200}) {
      expect_norms(ranks, GetParam(), {3, cols, DType::kBF16, 0, true});
      expect_norms(ranks, GetParam(), {1, cols, DType::kF32, 4, false});
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, ExchangeNormTest, testing::Values(Kind::kStream, Kind::kGpu),
                         [](const auto& kind) {
                           return kind.param == Kind::kStream ? "Stream" : "Gpu";
                         });

}  // namespace
}  // namespace lockstep
