// SPDX-License-Identifier: Apache-2.0
// A row has the same bits among up to 8192 rows, in linears as wide and deep as in models. This is
// tested only on a GPU, where it takes minutes. Small linears over the shim show that the check
// works.
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "tests/worker/kernels/kernel_case.h"
#include "worker/kernels/cuda/shim/table.h"
#include "worker/kernels/device.h"

namespace lockstep {
namespace {

constexpr int64_t kPatternUnits = (int64_t{1} << 21) - 9;  // So long that rows differ.

// Small numbers of either sign: 0.0078 to 0.12 as bf16 (one unit) and as float32 (two units). Codes
// and scales use the same bits.
std::vector<uint16_t> pattern() {
  std::vector<uint16_t> units(kPatternUnits);
  uint32_t random = kTestSeed;
  for (uint16_t& unit : units) {
    random = random * 1664525 + 1013904223;
    unit = static_cast<uint16_t>(0x3c00 | (random >> 16 & 0x81ff));
  }
  return units;
}

// A linear whose operands are all on the device; the whole output for max_rows is on the host.
class DeviceLinear {
 public:
  DeviceLinear(Device& device, const KernelEntry& kernel, int64_t cols, int64_t depth,
               int64_t max_rows)
      : device_(device),
        kernel_(kernel),
        cols_(cols),
        depth_(depth),
        max_rows_(max_rows),
        x_(filled(max_rows * depth * dtype_bytes(kernel.activation))),
        weight_(quantization(kernel.weight) ? filled(kernel.packed_bytes(cols, depth)) : packed()),
        out_(device, max_rows * cols * 4) {
    scratch_ = DeviceMemory(device, scratch_bytes(kernel, args(0, max_rows), 1));
    EXPECT_NE(scratch_.data(), nullptr) << "the GPU has too little memory";
    whole_ = run(0, max_rows);
  }

  // Rows [begin, begin + rows) computed alone have the same bits as among all rows.
  void expect_rows(int64_t begin, int64_t rows) {
    const std::unique_ptr<float[]> part = run(begin, rows);
    const float* const wanted = whole_.get() + begin * cols_;
    const int64_t count = rows * cols_;
    if (std::memcmp(part.get(), wanted, static_cast<size_t>(count) * 4) == 0) return;
    int64_t at = 0;
    while (std::bit_cast<uint32_t>(part[at]) == std::bit_cast<uint32_t>(wanted[at])) ++at;
    ADD_FAILURE() << rows << " rows from " << begin << " of [" << cols_ << ", " << depth_
                  << "]: row " << begin + at / cols_ << ", column " << at % cols_ << " is "
                  << part[at] << ", among " << max_rows_ << " rows it is " << wanted[at];
  }

  // Some outputs of bf16 or float32 weights must agree with a sum in double precision. This finds,
  // for example, a missing tail of K.
  void expect_sums() {
    if (kernel_.weight != DType::kBF16 && kernel_.weight != DType::kF32) return;
    for (int64_t i = 0; i < 32; ++i) {
      const int64_t row = i * (max_rows_ - 1) / 31, col = (31 - i) * (cols_ - 1) / 31;
      double sum = 0, size = 0;
      for (int64_t k = 0; k < depth_; ++k) {
        const double product = double{number(row * depth_ + k)} * number(col * depth_ + k);
        sum += product;
        size += std::abs(product);
      }
      ASSERT_NEAR(whole_[row * cols_ + col], sum, static_cast<double>(depth_) * 0x1p-24 * size)
          << "[" << cols_ << ", " << depth_ << "] at " << row << ", " << col;
    }
  }

 private:
  static const std::vector<uint16_t>& units() {
    static const std::vector<uint16_t> kUnits = pattern();
    return kUnits;
  }
  // The number at `index` of memory that filled() made, read in the weight's type.
  float number(int64_t index) const {
    if (kernel_.weight == DType::kBF16) return bf16_to_float(units()[index % kPatternUnits]);
    if (kernel_.weight == DType::kF16) return f16_to_float(units()[index % kPatternUnits]);
    const uint32_t low = units()[2 * index % kPatternUnits];
    return std::bit_cast<float>(uint32_t{units()[(2 * index + 1) % kPatternUnits]} << 16 | low);
  }
  // A weight whose rows have the numbers of filled() memory, packed for the kernel.
  DeviceMemory packed() {
    std::vector<std::byte> packed(static_cast<size_t>(kernel_.packed_bytes(cols_, depth_)));
    std::vector<float> rows(static_cast<size_t>(kPackRows * depth_));
    for (int64_t begin = 0; begin < cols_; begin += kPackRows) {
      for (size_t i = 0; i < rows.size(); ++i) {
        rows[i] = number(begin * depth_ + static_cast<int64_t>(i));
      }
      kernel_.pack({.source = rows.data(),
                    .source_stride = depth_,
                    .quantized = {},
                    .rows = cols_,
                    .cols = depth_,
                    .row_begin = begin,
                    .row_end = std::min(begin + kPackRows, cols_),
                    .packed = packed.data()});
    }
    DeviceMemory memory(device_, static_cast<int64_t>(packed.size()));
    if (memory.data() == nullptr) return memory;
    device_.copy_in(memory.data(), packed.data(), static_cast<int64_t>(packed.size()));
    EXPECT_EQ(device_.synchronize(), nullptr);
    return memory;
  }
  DeviceMemory filled(int64_t bytes) {
    DeviceMemory memory(device_, bytes + 1);
    const int64_t each = kPatternUnits * 2;
    for (int64_t at = 0; memory.data() != nullptr && at < bytes; at += each) {
      device_.copy_in(memory.data() + at, units().data(), std::min(each, bytes - at));
    }
    EXPECT_EQ(device_.synchronize(), nullptr);
    return memory;
  }
  KernelArgs args(int64_t begin, int64_t rows) const {
    KernelArgs args;
    std::byte* const x = x_.data() + begin * depth_ * dtype_bytes(kernel_.activation);
    args.in[0] = {x, rows, depth_, depth_, kernel_.activation};
    args.in[1] = {weight_.data(), cols_, depth_, depth_, kernel_.weight};
    args.out[0] = {out_.data(), rows, cols_, cols_, DType::kF32};
    args.scratch = scratch_.data();
    args.queue = device_.queue();
    return args;
  }
  std::unique_ptr<float[]> run(int64_t begin, int64_t rows) {
    std::unique_ptr<float[]> found(new float[static_cast<size_t>(rows * cols_)]);
    EXPECT_EQ(kernel_.run(args(begin, rows)), nullptr);
    device_.copy_out(found.get(), out_.data(), rows * cols_ * 4);
    EXPECT_EQ(device_.synchronize(), nullptr);
    return found;
  }

  Device& device_;
  const KernelEntry& kernel_;
  const int64_t cols_, depth_, max_rows_;
  DeviceMemory x_, weight_, out_, scratch_;
  std::unique_ptr<float[]> whole_;
};

void expect_bits(Device& device, const KernelEntry& kernel, int64_t cols, int64_t depth,
                 int64_t max_rows) {
  DeviceLinear linear(device, kernel, cols, depth, max_rows);
  linear.expect_sums();
  for (const int64_t rows : {1, 2, 63, 64, 65, 128, 512}) {
    if (rows > max_rows) break;
    for (const int64_t begin : {int64_t{0}, max_rows - rows}) linear.expect_rows(begin, rows);
  }
}

Device* gpu() {
  static std::string problem;
  static const std::unique_ptr<Device> device = open_cuda_device(0, &problem);
  return device.get();
}

// The linears of the exact class: only these promise that a row's bits do not depend on other rows.
std::vector<KernelEntry> linears_of(std::span<const KernelEntry> table) {
  std::vector<KernelEntry> linears;
  for (const KernelEntry& kernel : table) {
    if (kernel.op == Op::kLinear && !kernel.own_bits) linears.push_back(kernel);
  }
  return linears;
}
std::vector<KernelEntry> linears_of_gpu() {
  return gpu() == nullptr ? std::vector<KernelEntry>() : linears_of(cuda_kernels_of(*gpu()));
}

class RealLinearTest : public testing::TestWithParam<KernelEntry> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(RealLinearTest);

TEST_P(RealLinearTest, ARowsBitsDoNotDependOnTheOtherRows) {
  for (const int64_t depth : {4096, 14336}) {
    for (const int64_t cols : {4096, 6144, 28672, 128256}) {
      expect_bits(*gpu(), GetParam(), cols, depth, 8192);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Gpu, RealLinearTest, testing::ValuesIn(linears_of_gpu()), kernel_name);

TEST(SmallLinearTest, TheSameCheckHoldsOverTheShim) {
  const std::unique_ptr<Device> host = host_device();
  for (const KernelEntry& kernel : linears_of(cuda_shim_kernels())) {
    expect_bits(*host, kernel, 40, 96, 70);
  }
}

// A faulty kernel whose output depends on the number of rows.
const char* faulty(const KernelArgs& args) {
  for (int64_t row = 0; row < args.out[0].rows; ++row) {
    std::fill_n(args.out[0].row<float>(row), args.out[0].cols, 0.0f);
  }
  args.out[0].row<float>(0)[3] = args.out[0].rows == 64 ? 1.0f : 0.0f;
  return nullptr;
}

TEST(SmallLinearTest, AKernelWhoseBitsDependOnTheRowsIsFound) {
  const std::unique_ptr<Device> host = host_device();
  KernelEntry kernel = linears_of(cuda_shim_kernels())[0];
  kernel.weight = DType::kF16;  // expect_sums() does not check this type.
  kernel.run = faulty;
  testing::TestPartResultArray failures;
  {
    const testing::ScopedFakeTestPartResultReporter reporter(&failures);
    expect_bits(*host, kernel, 40, 96, 70);
  }
  ASSERT_EQ(failures.size(), 2);  // For the first and the last rows.
  EXPECT_NE(std::string(failures.GetTestPartResult(0).message()).find("64 rows from 0 of [40, 96]"),
            std::string::npos);
}

}  // namespace
}  // namespace lockstep
