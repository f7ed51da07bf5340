// SPDX-License-Identifier: Apache-2.0
// rope_attention gives the same bits as three operators: rope on q, rope on k, then attention. Its
// output may be rounded, like that of attention.
#include <string>

#include "tests/worker/kernels/cast_matrix.h"

namespace lockstep {
namespace {

struct Heads {
  const char* what;
  int64_t heads, kv_heads, head_dim, v_dim, rotary_dim;
  int64_t offset = 0;
  bool interleaved = false;
  int64_t window = 0;
  bool sinks = false;
};
constexpr Heads kHeads[] = {
    {"on tensor cores", 4, 2, 32, 32, 32},
    {"wide heads", 2, 1, 136, 136, 136},
    {"a rotated part in the middle, interleaved, with sinks", 3, 1, 64, 64, 32, 16, true, 0, true},
    {"a window", 5, 5, 16, 16, 8, 0, false, 5},
    {"not on tensor cores, because of their width", 2, 2, 20, 20, 8, 4},
    {"not on tensor cores, because of their values", 2, 1, 24, 16, 24, 0, true, 0, true},
};
constexpr int64_t kPageTokens = 16, kPages = 40;

// The first sequence has the even pages, the second the odd ones, both in descending order.
std::vector<int32_t> pages_of(int64_t sequence) {
  std::vector<int32_t> pages;
  for (int64_t page = kPages - 2 + sequence; page >= 0; page -= 2) {
    pages.push_back(static_cast<int32_t>(page));
  }
  return pages;
}

// The kernel for `op` in the table of `kernel`; for attention, the one whose pages have its type.
KernelEntry beside(const KernelEntry& kernel, Op op) {
  const auto target = [](const KernelEntry& one) {
    return std::string_view(one.name).ends_with("_shim");
  };
  for (const KernelEntry& other : kernels_of(op)) {
    const bool pages = op != Op::kAttention || other.weight == kernel.weight;
    if (pages && target(other) == target(kernel)) return other;
  }
  return {};
}

// A step with rows of two sequences; each sequence continues at a given position.
struct Rows {
  std::vector<int32_t> positions, sequence_of_row;
  std::vector<int32_t> pages[2] = {pages_of(0), pages_of(1)};
  std::vector<StepSequence> sequences;
  StepView view;

  struct Part {
    int64_t first_position, rows;
  };
  Rows(Part first, Part second) {
    for (const Part& part : {first, second}) {
      const auto sequence = static_cast<int32_t>(sequences.size());
      sequences.push_back({.first_row = std::ssize(positions),
                           .rows = part.rows,
                           .first_position = part.first_position,
                           .pages = pages[sequence].data()});
      for (int64_t r = 0; r < part.rows; ++r) {
        positions.push_back(static_cast<int32_t>(part.first_position + r));
        sequence_of_row.push_back(sequence);
      }
    }
    view = {.rows = std::ssize(positions),
            .positions = positions.data(),
            .sequence_of_row = sequence_of_row.data(),
            .sequences = sequences.data(),
            .sequence_count = 2};
  }
};

// A layer's pages and one way to compute it.
class Layer {
 public:
  Layer(const KernelEntry& kernel, const Heads& heads) : kernel_(kernel), heads_(heads) {
    for (int64_t h = 0; h < heads.heads; ++h) {
      map_.push_back(static_cast<int32_t>(h * heads.kv_heads / heads.heads));
    }
    page_bytes_ = kernel.page_bytes(
        {kPageTokens, heads.kv_heads, heads.head_dim, heads.v_dim, kernel.weight});
    memory_.assign(static_cast<size_t>(page_bytes_ * kPages), std::byte{0xff});
  }

  Matrix fused(Rows& rows, DType type) { return run_with(kernel_, rows, q(rows), k(rows), type); }
  Matrix apart(Rows& rows, DType type) {
    const Matrix q_rotated = rotated(rows, q(rows)), k_rotated = rotated(rows, k(rows));
    return run_with(beside(kernel_, Op::kAttention), rows, q_rotated, k_rotated, type);
  }
  const std::vector<std::byte>& memory() const { return memory_; }

 private:
  Matrix q(const Rows& rows) const { return random(rows, heads_.heads * heads_.head_dim, 1); }
  Matrix k(const Rows& rows) const { return random(rows, heads_.kv_heads * heads_.head_dim, 2); }
  static Matrix random(const Rows& rows, int64_t cols, uint32_t seed) {
    const int64_t first = rows.positions.front();
    return Matrix::random(rows.view.rows, cols, seed + 10 * static_cast<uint32_t>(first),
                          DType::kF32, cols + 5);
  }
  Matrix table(const Rows& rows) const { return random(rows, heads_.rotary_dim, 3); }

  AttentionAttrs attrs() const {
    return {.heads = heads_.heads,
            .kv_heads = heads_.kv_heads,
            .head_dim = heads_.head_dim,
            .v_dim = heads_.v_dim,
            .scale = 0.25f,
            .window = heads_.window,
            .rotary_dim = heads_.rotary_dim,
            .offset = heads_.offset,
            .interleaved = heads_.interleaved,
            .kv_head_of = {map_.data(), heads_.heads}};
  }

  Matrix rotated(Rows& rows, const Matrix& x) const {
    const Matrix rotations = table(rows);
    Matrix out(x.view().rows, x.view().cols);
    KernelArgs args;
    args.in[0] = x.view();
    args.in[1] = rotations.view();
    args.out[0] = out.view();
    args.attrs = rope_of(attrs());
    args.step = &rows.view;
    run(beside(kernel_, Op::kRope), args);
    return out;
  }

  Matrix run_with(const KernelEntry& kernel, Rows& rows, const Matrix& q, const Matrix& k,
                  DType type) {
    const Matrix v = random(rows, heads_.kv_heads * heads_.v_dim, 4), rotations = table(rows);
    const Matrix sinks = Matrix::random(1, heads_.heads, 5);
    const int64_t cols = heads_.heads * heads_.v_dim;
    Matrix out(rows.view.rows, cols, type, cols + 1);
    const bool rotates = kernel.op == Op::kRopeAttention;
    KernelArgs args;
    args.in[0] = q.view();
    args.in[1] = k.view();
    args.in[2] = v.view();
    if (rotates) args.in[3] = rotations.view();
    if (heads_.sinks) args.in[rotates ? 4 : 3] = sinks.view();
    args.out[0] = out.view();
    args.attrs = attrs();
    args.state = {memory_.data(), page_bytes_, kPages, kPageTokens, kernel.weight};
    args.step = &rows.view;
    run(kernel, args);
    return out;
  }

  KernelEntry kernel_;
  Heads heads_;
  std::vector<int32_t> map_;
  std::vector<std::byte> memory_;
  int64_t page_bytes_ = 0;
};

// A prompt of each sequence, then single rows, then the last rows of a prompt in a step with a
// single row.
std::vector<Rows> all_rows() {
  std::vector<Rows> all;
  all.push_back(Rows({0, 14}, {0, 13}));
  all.push_back(Rows({14, 1}, {13, 1}));
  all.push_back(Rows({15, 9}, {14, 1}));
  return all;
}

// A prompt with more positions than one split of keys, then single rows. With so few rows each
// split has its own block of threads, and the splits' sums are then merged.
std::vector<Rows> long_rows() {
  std::vector<Rows> all;
  all.push_back(Rows({0, 290}, {0, 3}));
  all.push_back(Rows({290, 1}, {3, 1}));
  return all;
}

class RopeAttentionTest : public testing::TestWithParam<KernelEntry> {};

TEST_P(RopeAttentionTest, RopeAttentionHasTheBitsOfRopeAndAttention) {
  for (const Heads& heads : kHeads) {
    Layer found(GetParam(), heads), wanted(GetParam(), heads);
    for (Rows& rows : all_rows()) {
      const Matrix a = found.fused(rows, DType::kF32), b = wanted.apart(rows, DType::kF32);
      expect_same_bits(a.view(), b.view(), heads.what);
      EXPECT_EQ(found.memory(), wanted.memory()) << heads.what << ": pages";
    }
  }
}

TEST_P(RopeAttentionTest, AgreesWithTheReference) {
  // The test above and AttentionTest compare rope_attention over int8 pages with it.
  if (GetParam().weight == DType::kI8) GTEST_SKIP() << "the reference has the codes of processors";
  // Pages are not compared: the reference has a layout of its own.
  for (const Heads& heads : kHeads) {
    KernelEntry plain = GetParam();
    plain.run = reference::kernel(Op::kRopeAttention);
    Layer found(GetParam(), heads), wanted(plain, heads);
    for (Rows& rows : all_rows()) {
      const Matrix a = found.fused(rows, DType::kF32), b = wanted.fused(rows, DType::kF32);
      const double unit = GetParam().weight == DType::kBF16 ? 0x1p-6 : 1e-5;
      expect_close(a.view(), b.view(), unit, heads.what);
    }
  }
}

TEST_P(RopeAttentionTest, ARoundedOutputHasTheBitsOfACast) {
  for (const Heads& heads : kHeads) {
    for (const bool fused : {true, false}) {
      Layer exact(GetParam(), heads), rounding(GetParam(), heads);
      for (Rows& rows : all_rows()) {
        const auto give = [&](Layer& layer, DType type) {
          return fused ? layer.fused(rows, type) : layer.apart(rows, type);
        };
        const Matrix x = give(exact, DType::kF32), found = give(rounding, DType::kBF16);
        expect_same_bits(found.view(), cast_matrix(x.view()).view(), heads.what);
      }
    }
  }
}

TEST_P(RopeAttentionTest, MergingSplitsOfKeysChangesNoBit) {
  const Heads heads = {"long", 2, 1, 16, 16, 16};
  Layer found(GetParam(), heads), wanted(GetParam(), heads);
  for (Rows& rows : long_rows()) {
    const Matrix a = found.fused(rows, DType::kBF16), b = wanted.apart(rows, DType::kF32);
    expect_same_bits(a.view(), cast_matrix(b.view()).view(), heads.what);
  }
}

TEST_P(RopeAttentionTest, NoRowsOrNoHeadsWriteNothing) {
  const Matrix out(3, 8);
  StepView step;
  KernelArgs args;
  args.step = &step;
  args.out[0].data = out.view().data;
  args.attrs = AttentionAttrs{.head_dim = 8, .v_dim = 8, .rotary_dim = 8};
  args.state.page_tokens = 16;
  run(GetParam(), args);
  step.rows = 3;
  run(GetParam(), args);
  EXPECT_TRUE(out.is_untouched());
}

INSTANTIATE_TEST_SUITE_P(Cuda, RopeAttentionTest, testing::ValuesIn(kernels_of(Op::kRopeAttention)),
                         kernel_name);

}  // namespace
}  // namespace lockstep
