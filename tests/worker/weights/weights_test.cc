// SPDX-License-Identifier: Apache-2.0
// Quantized weights from a source to a kernel's layout. The kernel is a fake that stores its input.
#include "worker/weights/weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "base/threads/thread_pool.h"
#include "tests/support/files/safetensors_writer.h"
#include "worker/kernels/find.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;

// Rows of [cols codes][16 bytes for scales][16 for minima].
constexpr int64_t kRoom = 16;

int64_t fake_bytes(int64_t rows, int64_t cols) { return rows * (cols + 2 * kRoom); }

template <bool kMinimum>
void fake_pack(const PackArgs& args) {
  ASSERT_EQ(args.source, nullptr);
  ASSERT_EQ(args.row_begin % kPackRows, 0);
  const int64_t groups = group_count({4, 32, kMinimum}, args.cols);
  const int64_t bytes = std::min<int64_t>(kRoom, groups * 2);
  for (int64_t row = args.row_begin; row < args.row_end; ++row) {
    const int64_t r = row - args.row_begin;
    char* to = static_cast<char*>(args.packed) + row * (args.cols + 2 * kRoom);
    std::memcpy(to, args.quantized.codes + r * args.cols, args.cols);
    std::memcpy(to + args.cols, args.quantized.scales + r * groups, bytes);
    if (kMinimum) std::memcpy(to + args.cols + kRoom, args.quantized.minima + r * groups, bytes);
  }
}

constexpr KernelEntry kSymmetric{
    .op = Op::kLinear, .weight = DType::kQ4, .pack = fake_pack<false>, .packed_bytes = fake_bytes};
constexpr KernelEntry kWithMinimum{
    .op = Op::kLinear, .weight = DType::kQ4M, .pack = fake_pack<true>, .packed_bytes = fake_bytes};

// One weight [rows, cols] for one of the fake kernels.
struct Case {
  program::Program program;
  Bindings bindings;
  std::unique_ptr<Device> device = host_device();

  Case(const KernelEntry& kernel, int64_t rows, int64_t cols) {
    program::Weight& weight = *program.add_weights();
    weight.set_name("w");
    weight.set_role(program::LINEAR_WEIGHT);
    weight.set_dtype(static_cast<program::DType>(kernel.weight));
    weight.set_rows(rows);
    weight.set_cols(cols);
    program::Piece& piece = *weight.add_pieces();
    piece.set_source("w");
    piece.add_source_shape(rows);
    piece.add_source_shape(cols);
    piece.set_row_end(rows);
    piece.set_col_end(cols);
    bindings.used = {true};
    bindings.packers = {&kernel};
  }

  absl::StatusOr<Weights> load(const WeightSource& source, int threads) const {
    ThreadPool pool(threads);
    return Weights::load(program, bindings, plan_weights(program, bindings), source, *device, pool,
                         {});
  }
};

// The expected input of the fake kernel, quantized in one call.
std::vector<char> expected(const Case& c, const WeightSource& source) {
  const program::Weight& weight = c.program.weights(0);
  const int64_t rows = weight.rows(), cols = weight.cols();
  const Quantization kind = *quantization(static_cast<DType>(weight.dtype()));
  const int64_t groups = group_count(kind, cols);
  std::vector<float> values(rows * cols);
  EXPECT_TRUE(source.read_rows(weight, 0, rows, values.data(), cols).ok());
  std::vector<int8_t> codes(rows * cols);
  std::vector<uint16_t> scales(rows * groups), minima(rows * groups);
  PackArgs args{.quantized = {codes.data(), scales.data(), kind.minimum ? minima.data() : nullptr},
                .rows = rows,
                .cols = cols,
                .row_end = rows};
  quantize_rows(kind, values.data(), cols, rows, cols, args.quantized);
  std::vector<char> packed(fake_bytes(rows, cols));
  args.packed = packed.data();
  c.bindings.packers[0]->pack(args);
  return packed;
}

TEST(WeightsTest, CodesDoNotDependOnBlocksAndThreads) {
  const WeightSource source(RandomWeights(3));
  for (const KernelEntry* kernel : {&kSymmetric, &kWithMinimum}) {
    const Case c(*kernel, 150, 20000);  // Blocks of 32 rows.
    const std::vector<char> wanted = expected(c, source);
    for (const int threads : {1, 3}) {
      const auto weights = c.load(source, threads);
      ASSERT_TRUE(weights.ok()) << weights.status();
      EXPECT_EQ(std::memcmp(weights->view(0).data, wanted.data(), wanted.size()), 0);
    }
  }
}

// Matrices of 50 rows, which is not a whole number of panels.
TEST(WeightsTest, EachExpertsMatrixIsPackedSeparately) {
  constexpr int64_t kExperts = 3, kRows = 50, kCols = 70;
  const WeightSource source(RandomWeights(3));
  for (const DType dtype : {DType::kF32, DType::kQ4}) {
    const KernelEntry& kernel =
        *find_kernel(cpu_kernels(), Op::kExpertLinear, dtype, DType::kF32, Isa::kPortable);
    Case all(kernel, kExperts * kRows, kCols);
    all.program.mutable_weights(0)->set_matrices(kExperts);
    const auto weights = all.load(source, 2);
    ASSERT_TRUE(weights.ok()) << weights.status();
    const int64_t bytes = kernel.packed_bytes(kRows, kCols);
    EXPECT_GE(weights->bytes(), kExperts * bytes);
    for (int64_t expert = 0; expert < kExperts; ++expert) {
      Case one(kernel, kRows, kCols);
      program::Piece& piece = *one.program.mutable_weights(0)->mutable_pieces(0);
      piece.set_source_shape(0, kExperts * kRows);
      piece.set_row_begin(expert * kRows);
      piece.set_row_end((expert + 1) * kRows);
      const auto alone = one.load(source, 1);
      ASSERT_TRUE(alone.ok()) << alone.status();
      const auto* packed = static_cast<const std::byte*>(weights->view(0).data) + expert * bytes;
      EXPECT_EQ(std::memcmp(packed, alone->view(0).data, static_cast<size_t>(bytes)), 0) << expert;
    }
  }
}

TEST(WeightsTest, ABlocksMemoryIncludesItsCodes) {
  const Case c(kWithMinimum, 32, 64);
  const WeightPlan plan = plan_weights(c.program, c.bindings);
  EXPECT_EQ(plan.block_bytes, 32 * (64 * 4 + 64 + 2 * 2 * 2));
  EXPECT_GE(plan.bytes, fake_bytes(32, 64));
}

TEST(WeightsTest, AWeightWithNonFiniteNumbersIsNamedAndNotPacked) {
  TestTensor tensor{.shape = {32, 64}, .values = std::vector<float>(32 * 64, 1.0f)};
  tensor.values[77] = std::numeric_limits<float>::infinity();
  const TempFolder folder;
  write_safetensors(folder.path() / "model.safetensors", {{"w", tensor}});
  auto checkpoint = Checkpoint::open(folder.path());
  ASSERT_TRUE(checkpoint.ok());
  const auto weights = Case(kSymmetric, 32, 64).load(WeightSource(*std::move(checkpoint)), 1);
  EXPECT_THAT(weights.status().message(), HasSubstr("w: must be finite numbers to be quantized"));
}

TEST(WeightsTest, ProgressCountsBytesInTheTargetType) {
  const Case c(kSymmetric, 64, 64);
  ThreadPool pool(1);
  Progress progress;
  const LoadOptions options{.progress = &progress};
  ASSERT_TRUE(Weights::load(c.program, c.bindings, plan_weights(c.program, c.bindings),
                            WeightSource(RandomWeights(1)), *c.device, pool, options)
                  .ok());
  EXPECT_EQ(progress.bytes_loaded, quantized_bytes({4, 32, false}, 64, 64));
  EXPECT_EQ(progress.bytes_to_load, progress.bytes_loaded);
}

}  // namespace
}  // namespace lockstep
