// SPDX-License-Identifier: Apache-2.0
// The codes in a checkpoint, written as `lockstep quantize` does and read as a worker does, equal
// codes that are rounded at load.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "base/threads/thread_pool.h"
#include "checkpoint/quantize_checkpoint.h"
#include "checkpoint/quantized_tensor.h"
#include "checkpoint/weight_source.h"
#include "tests/support/files/safetensors_writer.h"

namespace lockstep {
namespace {

using testing::HasSubstr;

constexpr DType kKinds[] = {DType::kQ8, DType::kQ8C, DType::kQ4, DType::kQ4M};

TestTensor random_tensor(unsigned seed, const std::vector<int64_t>& shape,
                         const std::string& dtype = "F32") {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal(0, 0.05f);
  TestTensor tensor{.dtype = dtype, .shape = shape, .values = {}};
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  for (int64_t i = 0; i < count; ++i) tensor.values.push_back(normal(engine));
  return tensor;
}

// A weight with pieces of whole sources [rows, cols], or of their columns [begin, end).
program::Weight weight_of(DType dtype, const std::vector<std::pair<std::string, int64_t>>& sources,
                          int64_t cols, int64_t begin = 0, int64_t end = -1) {
  program::Weight weight;
  weight.set_name("w");
  weight.set_role(program::LINEAR_WEIGHT);
  weight.set_dtype(static_cast<program::DType>(dtype));
  int64_t all = 0;
  for (const auto& [source, rows] : sources) {
    program::Piece& piece = *weight.add_pieces();
    piece.set_source(source);
    piece.add_source_shape(rows);
    piece.add_source_shape(cols);
    piece.set_row_end(rows);
    piece.set_col_begin(begin);
    piece.set_col_end(end < 0 ? cols : end);
    all += rows;
  }
  weight.set_rows(all);
  weight.set_cols((end < 0 ? cols : end) - begin);
  return weight;
}

struct Codes {
  std::vector<int8_t> codes;
  std::vector<uint16_t> scales;
  std::vector<uint16_t> minima;
  bool operator==(const Codes&) const = default;
};

absl::StatusOr<Codes> read_codes(const WeightSource& source, const program::Weight& weight,
                                 int64_t row_begin, int64_t row_end) {
  RETURN_IF_ERROR(source.check(weight));
  const Quantization kind = *quantization(static_cast<DType>(weight.dtype()));
  const int64_t rows = row_end - row_begin, groups = group_count(kind, weight.cols());
  Codes out{.codes = std::vector<int8_t>(rows * weight.cols(), 99),
            .scales = std::vector<uint16_t>(rows * groups),
            .minima = std::vector<uint16_t>(kind.minimum ? rows * groups : 0)};
  std::vector<float> floats(rows * weight.cols());
  RETURN_IF_ERROR(source.read_codes(weight, row_begin, row_end, floats.data(),
                                    {out.codes.data(), out.scales.data(), out.minima.data()}));
  return out;
}

class QuantizedTest : public testing::Test {
 protected:
  WeightSource open(const std::filesystem::path& folder) {
    auto checkpoint = Checkpoint::open(folder);
    EXPECT_TRUE(checkpoint.ok()) << checkpoint.status();
    return WeightSource(*std::move(checkpoint));
  }
  void write(const TestTensors& tensors) {
    write_safetensors(folder_.path() / "model.safetensors", tensors);
  }
  // Writes the contents of folder_ to `to`, with these matrices quantized to `kind`.
  absl::Status quantize(DType kind, const std::vector<std::string>& matrices,
                        const std::filesystem::path& to, int64_t shard_bytes = 1 << 20) {
    ASSIGN_OR_RETURN(const Checkpoint from, Checkpoint::open(folder_.path()));
    QuantizeOptions options{.kinds = {}, .shard_bytes = shard_bytes};
    for (const std::string& name : matrices) options.kinds[name] = kind;
    ThreadPool threads(2);
    std::filesystem::create_directory(to);
    return quantize_checkpoint(from, to, options, threads).status();
  }
  const TempFolder folder_;
  const std::filesystem::path out_ = folder_.path() / "out";
};

TEST_F(QuantizedTest, StoredCodesEqualCodesQuantizedAtLoad) {
  write({{"a", random_tensor(1, {70, 391})}, {"b", random_tensor(2, {33, 391}, "BF16")}});
  const WeightSource original = open(folder_.path());
  for (const DType kind : kKinds) {
    const auto folder = folder_.path() / dtype_name(kind);
    ASSERT_TRUE(quantize(kind, {"a", "b"}, folder).ok());
    const WeightSource stored = open(folder);
    const program::Weight both = weight_of(kind, {{"a", 70}, {"b", 33}}, 391);
    for (const auto& [begin, end] : {std::pair{0, 103}, {5, 6}, {64, 103}, {32, 32}}) {
      const auto wanted = read_codes(original, both, begin, end);
      const auto found = read_codes(stored, both, begin, end);
      ASSERT_TRUE(wanted.ok() && found.ok()) << wanted.status() << found.status();
      EXPECT_EQ(*wanted, *found) << dtype_name(kind) << " rows " << begin << " to " << end;
    }
  }
}

TEST_F(QuantizedTest, StoredCodesOfAPairedWeightAlternateLikeItsRows) {
  write({{"a", random_tensor(1, {33, 391})}, {"b", random_tensor(2, {33, 391})}});
  const WeightSource original = open(folder_.path());
  for (const DType kind : kKinds) {
    const auto folder = folder_.path() / dtype_name(kind);
    ASSERT_TRUE(quantize(kind, {"a", "b"}, folder).ok());
    const WeightSource stored = open(folder);
    program::Weight both = weight_of(kind, {{"a", 33}, {"b", 33}}, 391);
    both.set_paired(true);
    for (const auto& [begin, end] : {std::pair{0, 66}, {5, 6}, {31, 64}}) {
      const auto wanted = read_codes(original, both, begin, end);
      const auto found = read_codes(stored, both, begin, end);
      ASSERT_TRUE(wanted.ok() && found.ok()) << wanted.status() << found.status();
      EXPECT_EQ(*wanted, *found) << dtype_name(kind) << " rows " << begin << " to " << end;
    }
  }
}

// The rows of a stack of matrices have the same codes as in one matrix that has all these rows.
TEST_F(QuantizedTest, AStackIsStoredAsAStack) {
  write({{"a", random_tensor(1, {3, 10, 70})}});
  const WeightSource original = open(folder_.path());
  program::Weight weight = weight_of(DType::kQ4M, {{"a", 30}}, 70);
  weight.mutable_pieces(0)->clear_source_shape();
  for (const int64_t size : {3, 10, 70}) weight.mutable_pieces(0)->add_source_shape(size);
  ASSERT_TRUE(quantize(DType::kQ4M, {"a"}, out_).ok());
  EXPECT_EQ(Checkpoint::open(out_)->find("a")->shape, (std::vector<int64_t>{3, 10, 35}));
  EXPECT_EQ(Checkpoint::open(out_)->find("a.minima")->shape, (std::vector<int64_t>{3, 10, 3}));
  const auto wanted = read_codes(original, weight, 7, 23);
  const auto found = read_codes(open(out_), weight, 7, 23);
  ASSERT_TRUE(wanted.ok() && found.ok()) << wanted.status() << found.status();
  EXPECT_EQ(*wanted, *found);
}

TEST_F(QuantizedTest, WholeGroupsOfColumnsCanBeReadAlone) {
  write({{"a", random_tensor(3, {9, 300})}});
  const WeightSource original = open(folder_.path());
  for (const DType kind : {DType::kQ8, DType::kQ4, DType::kQ4M}) {
    const auto folder = folder_.path() / dtype_name(kind);
    ASSERT_TRUE(quantize(kind, {"a"}, folder).ok());
    const WeightSource stored = open(folder);
    for (const auto& [begin, end] : {std::pair{0, 128}, {128, 256}, {256, 300}}) {
      const program::Weight part = weight_of(kind, {{"a", 9}}, 300, begin, end);
      const auto wanted = read_codes(original, part, 2, 9), found = read_codes(stored, part, 2, 9);
      ASSERT_TRUE(wanted.ok() && found.ok()) << wanted.status() << found.status();
      EXPECT_EQ(*wanted, *found) << dtype_name(kind) << " columns " << begin << " to " << end;
    }
  }
}

TEST_F(QuantizedTest, TensorsThatAreNotQuantizedAreCopiedBitForBit) {
  write({{"a", random_tensor(4, {8, 64})},
         {"norm", random_tensor(5, {64}, "BF16")},
         {"ids", {.dtype = "I64", .shape = {3}, .values = {1, 2, 3}}},
         {"none", {.shape = {0, 4}, .values = {}}}});
  ASSERT_TRUE(quantize(DType::kQ4, {"a"}, out_, /*shard_bytes=*/200).ok());  // Several files.
  const auto before = Checkpoint::open(folder_.path()), after = Checkpoint::open(out_);
  ASSERT_TRUE(before.ok() && after.ok()) << after.status();
  EXPECT_TRUE(std::filesystem::exists(out_ / "model.safetensors.index.json"));
  for (const char* name : {"norm", "ids", "none"}) {
    const TensorInfo *old = before->find(name), *copied = after->find(name);
    ASSERT_NE(copied, nullptr) << name;
    EXPECT_EQ(copied->dtype_name, old->dtype_name);
    EXPECT_EQ(copied->shape, old->shape);
    std::string wanted(old->end - old->begin, 'x'), found(copied->end - copied->begin, 'y');
    const Rectangle all{0, old->rows, 0, old->cols};
    ASSERT_TRUE(before->read_stored(*old, all, wanted.data()).ok());
    ASSERT_TRUE(after->read_stored(*copied, all, found.data()).ok());
    EXPECT_EQ(wanted, found) << name;
  }
  EXPECT_EQ(after->find("a")->dtype_name, "U8");
  EXPECT_EQ(after->find("a")->shape, (std::vector<int64_t>{8, 32}));
  EXPECT_EQ(after->find("a.scales")->shape, (std::vector<int64_t>{8, 2}));
}

TEST_F(QuantizedTest, TheLowNibbleIsTheEvenColumn) {
  TestTensor tensor{.shape = {1, 5}, .values = {-8, 7, 1, -1, 3}};
  write({{"a", tensor}});
  ASSERT_TRUE(quantize(DType::kQ4, {"a"}, out_).ok());
  const auto checkpoint = Checkpoint::open(out_);
  const TensorInfo* codes = checkpoint->find("a");
  uint8_t bytes[3];
  ASSERT_TRUE(checkpoint->read_stored(*codes, {0, 1, 0, 3}, bytes).ok());
  EXPECT_EQ(bytes[0], 0x78);
  EXPECT_EQ(bytes[1], 0xf1);
  EXPECT_EQ(bytes[2], 0x03);
}

TEST_F(QuantizedTest, ReadingAnotherKindThanTheStoredOneIsAnErrorThatNamesBoth) {
  write({{"a", random_tensor(6, {4, 256})}});
  ASSERT_TRUE(quantize(DType::kQ8C, {"a"}, out_).ok());
  const WeightSource stored = open(out_);
  const absl::Status other = stored.check(weight_of(DType::kQ8, {{"a", 4}}, 256));
  EXPECT_EQ(
      other.message(),
      "a.scales: as q8 it must be BF16 [4, 8], found BF16 [4, 1]: it was quantized in another "
      "way; run it in its own scheme (no --quantize)");
  const absl::Status narrower = stored.check(weight_of(DType::kQ4, {{"a", 4}}, 256));
  EXPECT_THAT(narrower.message(), HasSubstr("a: as q4 it must be U8 [4, 128], found I8 [4, 256]"));
  const absl::Status plain = stored.check(weight_of(DType::kBF16, {{"a", 4}}, 256));
  EXPECT_THAT(plain.message(),
              HasSubstr("quantized in the checkpoint, but bfloat16 was requested"));
}

TEST_F(QuantizedTest, MissingMinimaAreAnError) {
  write({{"a", random_tensor(6, {4, 256})}});
  ASSERT_TRUE(quantize(DType::kQ4, {"a"}, out_).ok());
  const absl::Status status = open(out_).check(weight_of(DType::kQ4M, {{"a", 4}}, 256));
  EXPECT_THAT(status.message(), HasSubstr("a.minima: as q4m it must be BF16 [4, 8], found none"));
}

TEST_F(QuantizedTest, UnexpectedMinimaAreAnError) {
  write({{"a", random_tensor(7, {4, 64})}});
  ASSERT_TRUE(quantize(DType::kQ4M, {"a"}, out_).ok());
  const absl::Status status = open(out_).check(weight_of(DType::kQ4, {{"a", 4}}, 64));
  EXPECT_THAT(status.message(), HasSubstr("a: q4 has no minima, the checkpoint has some"));
}

TEST_F(QuantizedTest, CodesAndScalesThatNoQuantizerWritesAreRefused) {
  const std::string low(64, '\x80');
  const uint16_t one = 0x3f80, infinity = 0x7f80;
  const auto file = [&](const std::string& codes, uint16_t scale) {
    std::string data = codes;
    for (int i = 0; i < 2; ++i) data.append(reinterpret_cast<const char*>(&scale), 2);
    write_test_file(
        folder_.path() / "model.safetensors",
        safetensors_header({{"a", "I8", {1, 64}}, {"a.scales", "BF16", {1, 2}}}) + data);
    return read_codes(open(folder_.path()), weight_of(DType::kQ8, {{"a", 1}}, 64), 0, 1).status();
  };
  EXPECT_TRUE(file(std::string(64, '\x81'), one).ok());
  EXPECT_THAT(file(low, one).message(), HasSubstr("a: must have codes of -127 to 127, found -128"));
  EXPECT_THAT(file(std::string(64, '\x01'), infinity).message(),
              HasSubstr("a.scales: must be finite numbers"));
}

TEST_F(QuantizedTest, NonFiniteWeightsAreNotQuantizedAndTheErrorNamesThem) {
  TestTensor tensor = random_tensor(8, {4, 64});
  tensor.values[130] = std::numeric_limits<float>::quiet_NaN();
  write({{"a", tensor}});
  EXPECT_THAT(quantize(DType::kQ4, {"a"}, out_).message(),
              HasSubstr("a: must be finite numbers to be quantized, found infinity or NaN"));
  const auto codes = read_codes(open(folder_.path()), weight_of(DType::kQ8, {{"a", 4}}, 64), 0, 4);
  EXPECT_THAT(codes.status().message(), HasSubstr("must be finite numbers to be quantized"));
}

TEST_F(QuantizedTest, TransposedWeightsAreRoundedAlongTheirOwnRows) {
  const TestTensor stored = random_tensor(9, {64, 20});
  TestTensor transposed{.shape = {20, 64}, .values = {}};
  for (int64_t i = 0; i < 20 * 64; ++i)
    transposed.values.push_back(stored.values[i % 64 * 20 + i / 64]);
  write({{"a", stored}, {"b", transposed}});
  program::Weight weight = weight_of(DType::kQ4, {{"a", 64}}, 20);
  weight.set_rows(20);
  weight.set_cols(64);
  weight.mutable_pieces(0)->set_transpose(true);
  const WeightSource source = open(folder_.path());
  const auto found = read_codes(source, weight, 0, 20);
  const auto wanted = read_codes(source, weight_of(DType::kQ4, {{"b", 20}}, 64), 0, 20);
  ASSERT_TRUE(found.ok() && wanted.ok()) << found.status() << wanted.status();
  EXPECT_EQ(*found, *wanted);
}

TEST_F(QuantizedTest, ProgressCountsTheBytesInTheFile) {
  write({{"a", random_tensor(10, {4, 64})}});
  EXPECT_EQ(*open(folder_.path()).bytes_to_read(weight_of(DType::kQ4, {{"a", 4}}, 64)), 4 * 64 * 4);
  ASSERT_TRUE(quantize(DType::kQ4, {"a"}, out_).ok());
  EXPECT_EQ(*open(out_).bytes_to_read(weight_of(DType::kQ4, {{"a", 4}}, 64)), 4 * (32 + 2 * 2));
}

}  // namespace
}  // namespace lockstep
