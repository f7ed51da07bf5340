// SPDX-License-Identifier: Apache-2.0
// A rank copies weights that it has in memory from its old program, and reads only the others that
// the new program needs. The result has the bytes that loading all weights would give.
#include "worker/weights/retained_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/threads/thread_pool.h"
#include "tests/support/files/temp_folder.h"
#include "worker/kernels/find.h"
#include "worker/weights/weights_key.h"

namespace lockstep {
namespace {

constexpr int64_t kCols = 96;

// The weights of one rank, each with its kernel's packer.
struct Slice {
  program::Program program;
  Bindings bindings;

  program::Weight& add(Op op, program::Role role, DType dtype, int64_t cols = kCols) {
    program::Weight& weight = *program.add_weights();
    weight.set_name("w");
    weight.set_role(role);
    weight.set_dtype(static_cast<program::DType>(dtype));
    weight.set_cols(cols);
    const bool plain = op == Op::kNone;
    const DType rows = dtype == DType::kBF16 && op == Op::kLinear ? DType::kBF16 : DType::kF32;
    bindings.used.push_back(true);
    bindings.packers.push_back(plain ? nullptr
                                     : find_kernel(cpu_kernels(), op, dtype, rows, Isa::kPortable));
    EXPECT_TRUE(plain || bindings.packers.back() != nullptr);
    return weight;
  }
  void linear(const std::string& source, int64_t begin, int64_t end, DType dtype) {
    rows(add(Op::kLinear, program::LINEAR_WEIGHT, dtype), source, begin, end);
  }
  // Appends rows of a source of 1000 rows to the weight's rows.
  static void rows(program::Weight& weight, const std::string& source, int64_t begin, int64_t end) {
    program::Piece& piece = *weight.add_pieces();
    piece.set_source(source);
    piece.add_source_shape(1000);
    piece.add_source_shape(weight.cols());
    piece.set_row_begin(begin);
    piece.set_row_end(end);
    piece.set_col_end(weight.cols());
    weight.set_rows(weight.rows() + end - begin);
  }
};

struct Loaded {
  Weights weights;
  int64_t read = 0;  // Bytes that were read.
};

class RetainedWeightsTest : public ::testing::Test {
 protected:
  Loaded load(const Slice& slice, const Slice* before = nullptr,
              const PackedCache* cache = nullptr) {
    std::unique_ptr<RetainedWeights> retained;
    if (before != nullptr) {
      retained =
          std::make_unique<RetainedWeights>(RetainedWeights{.program = before->program,
                                                            .bindings = before->bindings,
                                                            .weights = load(*before).weights});
    }
    Progress progress;
    absl::StatusOr<Weights> weights = Weights::load(
        slice.program, slice.bindings, plan_weights(slice.program, slice.bindings), source_,
        *device_, pool_, {.progress = &progress, .cache = cache, .retained = &retained});
    EXPECT_TRUE(weights.ok()) << weights.status();
    EXPECT_EQ(retained, nullptr);
    return {*std::move(weights), progress.bytes_loaded};
  }
  // The bytes that are read for `after` if `before` is in memory.
  int64_t read(const Slice& before, const Slice& after) {
    const Loaded fresh = load(after), kept = load(after, &before);
    const auto wanted = fresh.weights.contents(), found = kept.weights.contents();
    EXPECT_EQ(wanted.size(), found.size());
    EXPECT_EQ(std::memcmp(wanted.data(), found.data(), wanted.size()), 0);
    all_ = fresh.read;
    return kept.read;
  }

  const WeightSource source_{RandomWeights(3)};
  const std::unique_ptr<Device> device_ = host_device();
  ThreadPool pool_{2};
  int64_t all_ = 0;  // The bytes that are read without weights in memory.
};

constexpr DType kDTypes[] = {DType::kF32, DType::kBF16, DType::kQ4, DType::kQ8};

TEST_F(RetainedWeightsTest, ALargerPartReadsOnlyItsNewRows) {
  for (const DType dtype : kDTypes) {
    for (const Op op : {Op::kLinear, Op::kEmbed}) {
      SCOPED_TRACE(dtype_name(dtype));
      Slice before, after;
      const auto role = op == Op::kEmbed ? program::EMBEDDING : program::LINEAR_WEIGHT;
      Slice::rows(before.add(op, role, dtype), "up", 320, 640);
      Slice::rows(after.add(op, role, dtype), "up", 256, 704);
      EXPECT_EQ(read(before, after), matrix_bytes(dtype, 128, kCols));
      EXPECT_EQ(all_, matrix_bytes(dtype, 448, kCols));
    }
  }
}

TEST_F(RetainedWeightsTest, ASmallerPartReadsNothing) {
  for (const DType dtype : kDTypes) {
    Slice before, after;
    before.linear("up", 0, 1000, dtype);
    after.linear("up", 320, 1000, dtype);  // The last panel is not whole.
    EXPECT_EQ(read(before, after), 0);
  }
}

TEST_F(RetainedWeightsTest, RowsThatMoveToOtherPanelsAreReadAgain) {
  Slice before, after;
  before.linear("up", 0, 320, DType::kQ4);
  after.linear("up", 16, 320, DType::kQ4);
  EXPECT_EQ(read(before, after), all_);
  Slice longer;  // It fills the last panel of `before`.
  before = {};
  before.linear("up", 0, 330, DType::kQ4);
  longer.linear("up", 0, 352, DType::kQ4);
  EXPECT_EQ(read(before, longer), matrix_bytes(DType::kQ4, 32, kCols));
}

TEST_F(RetainedWeightsTest, PanelsOfPairsAreReusedIfBothHalvesHaveTheSameRows) {
  const auto gate_up = [](int64_t begin, int64_t end, bool paired) {
    Slice slice;
    program::Weight& weight = slice.add(Op::kLinear, program::LINEAR_WEIGHT, DType::kQ4);
    Slice::rows(weight, "gate", begin, end);
    Slice::rows(weight, "up", begin, end);
    weight.set_paired(paired);
    return slice;
  };
  const Slice before = gate_up(160, 320, true);
  EXPECT_EQ(read(before, gate_up(128, 352, true)), matrix_bytes(DType::kQ4, 128, kCols));
  EXPECT_EQ(read(before, gate_up(160, 320, false)), all_);
}

// An example is a weight with the rows of q, k and v: a panel may have rows of two of them.
TEST_F(RetainedWeightsTest, PanelsOfSeveralPiecesAreReusedIfAllTheirRowsAreTheSame) {
  const auto fused = [](int64_t q_begin, int64_t q_end, int64_t k_begin, int64_t k_end) {
    Slice slice;
    program::Weight& weight = slice.add(Op::kLinear, program::LINEAR_WEIGHT, DType::kF32);
    Slice::rows(weight, "q", q_begin, q_end);
    Slice::rows(weight, "k", k_begin, k_end);
    return slice;
  };
  // q: 64 more rows in front; k: the same rows.
  EXPECT_EQ(read(fused(128, 256, 64, 128), fused(64, 256, 64, 128)), 64 * kCols * 4);
  // The panel at the boundary has 16 rows of each; k's other rows fill two panels.
  EXPECT_EQ(read(fused(0, 80, 0, 80), fused(0, 80, 0, 80)), 0);
  EXPECT_EQ(read(fused(0, 80, 0, 80), fused(0, 80, 8, 88)), 96 * kCols * 4);
}

TEST_F(RetainedWeightsTest, AWeightMadeOfTheSameRowsInAnotherWayIsReadAgain) {
  Slice before;
  before.linear("up", 0, 320, DType::kF32);
  const auto with = [&](const std::function<void(Slice&)>& change) {
    Slice after;
    change(after);
    EXPECT_EQ(read(before, after), all_);
  };
  with([](Slice& s) { s.linear("down", 0, 320, DType::kF32); });
  with([](Slice& s) { s.linear("up", 0, 320, DType::kF16); });
  with([](Slice& s) {
    s.linear("up", 0, 320, DType::kF32);
    s.program.mutable_weights(0)->mutable_pieces(0)->set_unit_rows(true);
  });
  with([](Slice& s) {
    Slice::rows(s.add(Op::kEmbed, program::EMBEDDING, DType::kF32), "up", 0, 320);
  });
}

TEST_F(RetainedWeightsTest, PanelsOfTransposedRowsAreReused) {
  const auto transposed = [](int64_t begin, int64_t end) {
    Slice slice;
    program::Weight& weight = slice.add(Op::kLinear, program::LINEAR_WEIGHT, DType::kBF16);
    weight.set_rows(end - begin);
    program::Piece& piece = *weight.add_pieces();
    piece.set_source("c");
    piece.set_transpose(true);
    piece.add_source_shape(kCols);
    piece.add_source_shape(1000);
    piece.set_row_end(kCols);
    piece.set_col_begin(begin);
    piece.set_col_end(end);
    return slice;
  };
  EXPECT_EQ(read(transposed(64, 128), transposed(32, 160)), matrix_bytes(DType::kBF16, 64, kCols));
}

TEST_F(RetainedWeightsTest, EachExpertIsSplitSeparately) {
  const auto experts = [](int64_t begin, int64_t end) {
    Slice slice;
    program::Weight& weight = slice.add(Op::kExpertLinear, program::LINEAR_WEIGHT, DType::kQ4);
    for (const char* source : {"e0", "e1", "e2"}) Slice::rows(weight, source, begin, end);
    weight.set_matrices(3);
    return slice;
  };
  EXPECT_EQ(read(experts(32, 96), experts(32, 130)), 3 * matrix_bytes(DType::kQ4, 34, kCols));
}

TEST_F(RetainedWeightsTest, NormsAndBiasesAreReusedOnlyWhole) {
  const auto vectors = [](int64_t begin, int64_t end) {
    Slice slice;
    for (const auto role : {program::NORM, program::BIAS}) {
      program::Weight& weight = slice.add(Op::kNone, role, DType::kF32, end - begin);
      weight.set_rows(1);
      program::Piece& piece = *weight.add_pieces();
      piece.set_source(role == program::NORM ? "norm" : "bias");
      piece.add_source_shape(1000);
      piece.set_row_end(1);
      piece.set_col_begin(begin);
      piece.set_col_end(end);
    }
    return slice;
  };
  EXPECT_EQ(read(vectors(0, 640), vectors(0, 640)), 0);
  EXPECT_EQ(read(vectors(0, 640), vectors(0, 320)), all_);
}

// Changes one byte of a file.
void change_byte(const std::string& path, int64_t at) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(at);
  const int byte = file.get();
  file.seekp(at);
  file.put(static_cast<char>(byte ^ 1));
}

TEST_F(RetainedWeightsTest, OnlyBlocksThatAreNotInMemoryAreReadFromTheCache) {
  const TempFolder folder;
  Slice before, after;
  for (int i = 0; i < 14; ++i) {  // 5.5 MB, in blocks of 2 MiB.
    before.linear("w" + std::to_string(i), 0, 1000, DType::kF32);
    after.linear("w" + std::to_string(i), 0, 1000, DType::kF32);
  }
  after.linear("another", 0, 1000, DType::kF32);
  const PackedCache cache({.folder = folder.path().string()},
                          *weights_key(after.program, after.bindings, {}));
  const Loaded fresh = load(after, nullptr, &cache);
  const auto expect_same = [&fresh](const Loaded& found) {
    const auto wanted = fresh.weights.contents();
    EXPECT_EQ(std::memcmp(wanted.data(), found.weights.contents().data(), wanted.size()), 0);
  };
  ASSERT_TRUE(cache.exists());
  change_byte(cache.path(), 1 << 20);  // In a block that is in memory and not read.
  const Loaded kept = load(after, &before, &cache);
  EXPECT_EQ(kept.read, 0);
  expect_same(kept);
  // This block is not in memory: the file is wrong, and none of it is used.
  change_byte(cache.path(), static_cast<int64_t>(std::filesystem::file_size(cache.path())) - 9'000);
  const Loaded again = load(after, &before, &cache);
  EXPECT_EQ(again.read, fresh.read);
  expect_same(again);
}

}  // namespace
}  // namespace lockstep
