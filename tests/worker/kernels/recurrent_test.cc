// SPDX-License-Identifier: Apache-2.0
// Operators that keep data of every sequence in a state block, fed with whole sequences step by
// step. They agree with the reference, and have the same bits for any steps, threads, other
// sequences and instruction sets.
#include <algorithm>
#include <utility>

#include "tests/worker/kernels/kernel_case.h"

namespace lockstep {
namespace {

struct Shape {
  Op op = Op::kConv;
  int64_t cols = 37;  // For conv, shift and wkv.
  int64_t taps = 4;
  bool bias = true;
  int64_t heads = 4;  // For delta_rule and recurrence.
  int64_t key_heads = 2;
  int64_t k_dim = 24;
  int64_t v_dim = 20;
  bool decay_by_row = true;  // For recurrence: one decay per state row, not per head.
  bool changes = true;       // Whether a and b change the state.
  bool out_before = false;
  std::vector<int64_t> lengths = {9, 40, 1};
};

bool has_heads(Op op) { return op == Op::kDeltaRule || op == Op::kRecurrence; }

template <typename F>
void change(const Matrix& x, const F& f) {
  for (int64_t r = 0; r < x.view().rows; ++r) {
    for (int64_t c = 0; c < x.view().cols; ++c)
      reference::set_element(x.view(), r, c, f(x.at(r, c)));
  }
}

// All rows of one sequence's inputs.
std::vector<Matrix> inputs_of(const Shape& shape, uint32_t seed, int64_t rows) {
  std::vector<Matrix> in;
  const auto add = [&](int64_t cols) {
    in.push_back(Matrix::random(rows, cols, seed * 16 + static_cast<uint32_t>(in.size())));
  };
  const auto add_rate = [&](int64_t cols) {  // Rates between 0 and 1.
    add(cols);
    change(in.back(), [](float x) { return 1 / (1 + std::exp(-x - 1)); });
  };
  if (!has_heads(shape.op)) {
    for (int i = 0; i < (shape.op == Op::kWkv ? 2 : 1); ++i) add(shape.cols);
    return in;
  }
  add(shape.key_heads * shape.k_dim);
  add(shape.key_heads * shape.k_dim);
  add(shape.heads * shape.v_dim);
  if (shape.op == Op::kDeltaRule) {
    for (int i = 0; i < 2; ++i) add_rate(shape.heads);
    return in;
  }
  add_rate(shape.heads * (shape.decay_by_row ? shape.k_dim : 1));
  for (int i = 0; shape.changes && i < 2; ++i) {  // a and b are small: the state does not grow.
    add(shape.heads * shape.k_dim);
    const float length = 0.5f / std::sqrt(static_cast<float>(shape.k_dim));
    change(in.back(), [length](float x) { return x * length; });
  }
  return in;
}

int64_t out_cols(const Shape& shape) {
  return has_heads(shape.op) ? shape.heads * shape.v_dim : shape.cols;
}

int64_t block_size(const Shape& shape) {
  if (has_heads(shape.op)) return shape.heads * shape.k_dim * shape.v_dim;
  return shape.cols * (shape.op == Op::kConv  ? shape.taps - 1
                       : shape.op == Op::kWkv ? kWkvRows
                                              : 1);
}

// Sequences that a kernel computes in steps, each in its own slot.
class Play {
 public:
  explicit Play(const Shape& shape) : shape_(shape) {
    for (size_t s = 0; s < shape.lengths.size(); ++s) {
      in_.push_back(inputs_of(shape, static_cast<uint32_t>(s), shape.lengths[s]));
    }
    weight_ = Matrix::random(1, shape.cols * shape.taps, 99);
    bias_ = Matrix::random(1, shape.cols, 98);
    first_ = Matrix::random(1, shape.cols, 97);
    for (int64_t h = 0; h < shape.heads; ++h) {
      key_head_of_.push_back(static_cast<int32_t>(h * shape.key_heads / shape.heads));
    }
    // There is one slot more than sequences; blocks are filled with NaN.
    state_ =
        std::make_unique<Matrix>(static_cast<int64_t>(shape.lengths.size()) + 1, block_size(shape));
  }

  void scale_input(size_t input, float factor) {
    for (std::vector<Matrix>& in : in_) change(in[input], [&](float x) { return x * factor; });
  }

  // The outputs of every sequence, with at most `chunk` rows of each in a step.
  std::vector<Matrix> run_all(const KernelEntry& kernel, int64_t chunk, int threads = 1) {
    std::vector<Matrix> outputs;
    for (const int64_t length : shape_.lengths) outputs.emplace_back(length, out_cols(shape_));
    std::vector<int64_t> done(shape_.lengths.size());
    for (;;) {
      std::vector<StepSequence> sequences;
      std::vector<size_t> active;
      int64_t rows = 0;
      for (size_t s = 0; s < done.size(); ++s) {
        const int64_t count = std::min(chunk, shape_.lengths[s] - done[s]);
        if (count == 0) continue;
        sequences.push_back({.first_row = rows,
                             .rows = count,
                             .first_position = done[s],
                             .slot = static_cast<int64_t>(done.size() - s)});
        active.push_back(s);
        rows += count;
      }
      if (rows == 0) return outputs;
      step(kernel, threads, sequences, active, rows, done, outputs);
    }
  }

 private:
  void step(const KernelEntry& kernel, int threads, const std::vector<StepSequence>& sequences,
            const std::vector<size_t>& active, int64_t rows, std::vector<int64_t>& done,
            std::vector<Matrix>& outputs) {
    KernelArgs args;
    std::vector<Matrix> in;
    for (size_t i = 0; i < in_[0].size(); ++i) {
      const int64_t cols = in_[0][i].view().cols;
      in.emplace_back(rows, cols, DType::kF32, cols + 3);
      for (size_t n = 0; n < active.size(); ++n) {
        copy_rows(in_[active[n]][i], done[active[n]], in[i], sequences[n].first_row,
                  sequences[n].rows);
      }
    }
    for (size_t i = 0; i < in.size(); ++i) args.in[i] = in[i].view();
    if (shape_.op == Op::kConv) {
      args.in[1] = weight_.view();
      if (shape_.bias) args.in[2] = bias_.view();
    }
    if (shape_.op == Op::kWkv) {
      args.in[2] = bias_.view();
      args.in[3] = first_.view();
    }
    Matrix out(rows, out_cols(shape_));
    args.out[0] = out.view();
    args.attrs = attrs();
    args.state = {.data = static_cast<std::byte*>(state_->view().data),
                  .page_bytes = state_->view().cols * 4,
                  .pages = state_->view().rows,
                  .dtype = DType::kF32};
    std::vector<int32_t> tokens(static_cast<size_t>(rows)), positions(tokens), owners(tokens);
    StepView step{.rows = rows,
                  .tokens = tokens.data(),
                  .positions = positions.data(),
                  .sequence_of_row = owners.data(),
                  .sequences = sequences.data(),
                  .sequence_count = static_cast<int64_t>(sequences.size())};
    args.step = &step;
    run(kernel, args, threads);
    for (size_t n = 0; n < active.size(); ++n) {
      copy_rows(out, sequences[n].first_row, outputs[active[n]], done[active[n]],
                sequences[n].rows);
      done[active[n]] += sequences[n].rows;
    }
  }

  OperatorAttrs attrs() const {
    const AttrsKind kind = schema_of(shape_.op).attrs;
    if (kind == AttrsKind::kConv) return ConvAttrs{.taps = shape_.taps};
    if (kind == AttrsKind::kBlock) return BlockAttrs{};
    return RecurrenceAttrs{.heads = shape_.heads,
                           .key_heads = shape_.key_heads,
                           .k_dim = shape_.k_dim,
                           .v_dim = shape_.v_dim,
                           .scale = 0.25f,
                           .eps = 1e-6f,
                           .out_before = shape_.out_before,
                           .key_head_of = {key_head_of_.data(), shape_.heads}};
  }

  static void copy_rows(const Matrix& from, int64_t from_row, Matrix& to, int64_t to_row,
                        int64_t rows) {
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < from.view().cols; ++c) {
        reference::set_element(to.view(), to_row + r, c, from.at(from_row + r, c));
      }
    }
  }

  Shape shape_;
  std::vector<std::vector<Matrix>> in_;  // By sequence and operand.
  Matrix weight_{1, 1}, bias_{1, 1}, first_{1, 1};
  std::vector<int32_t> key_head_of_;
  std::unique_ptr<Matrix> state_;
};

std::vector<Shape> shapes_of(Op op) {
  std::vector<Shape> shapes;
  if (!has_heads(op)) {
    for (const int64_t cols : {1, 15, 16, 17, 128, 300, 2100}) {
      if (op != Op::kConv) shapes.push_back({.op = op, .cols = cols});
      for (const int64_t taps : {2, 3, 4, 16}) {
        if (op != Op::kConv || cols > 300) break;
        shapes.push_back({.op = op, .cols = cols, .taps = taps, .bias = taps != 3});
      }
    }
    return shapes;
  }
  for (const int64_t v_dim : {1, 12, 16, 33, 128}) {
    for (const int64_t k_dim : {1, 7, 64, 128}) {
      shapes.push_back({.op = op, .k_dim = k_dim, .v_dim = v_dim});
    }
  }
  shapes.push_back({.op = op, .heads = 3, .key_heads = 1, .lengths = {70, 3}});
  shapes.push_back({.op = op, .heads = 2, .key_heads = 2, .k_dim = 256, .v_dim = 8});
  shapes.push_back({.op = op, .heads = 0, .key_heads = 0});
  if (op == Op::kRecurrence) {
    for (const bool by_row : {false, true}) {
      shapes.push_back({.op = op, .decay_by_row = by_row, .out_before = true});
      shapes.push_back({.op = op, .decay_by_row = by_row, .changes = false});
      shapes.push_back({.op = op, .decay_by_row = by_row, .changes = false, .out_before = true});
    }
  }
  return shapes;
}

std::vector<KernelEntry> recurrent_kernels() {
  std::vector<KernelEntry> found;
  for (const Op op : {Op::kConv, Op::kDeltaRule, Op::kRecurrence, Op::kShift, Op::kWkv}) {
    for (const KernelEntry& entry : kernels_of(op)) found.push_back(entry);
  }
  return found;
}

void expect_all_same(const std::vector<Matrix>& found, const std::vector<Matrix>& wanted,
                     const std::string& what) {
  for (size_t s = 0; s < wanted.size(); ++s) {
    expect_same_bits(found[s].view(), wanted[s].view(), what);
  }
}

class RecurrentTest : public testing::TestWithParam<KernelEntry> {};

TEST_P(RecurrentTest, AgreesWithTheReference) {
  KernelEntry plain = GetParam();
  plain.run = reference::kernel(plain.op);
  for (const Shape& shape : shapes_of(GetParam().op)) {
    const std::vector<Matrix> found = Play(shape).run_all(GetParam(), 7, 2);
    const std::vector<Matrix> wanted = Play(shape).run_all(plain, 1000);
    for (size_t s = 0; s < wanted.size(); ++s) {
      expect_close(found[s].view(), wanted[s].view(), 1e-5, GetParam().name);
    }
  }
}

TEST_P(RecurrentTest, EveryIsaGivesTheSameBits) {
  if (!has_cpu_bits(GetParam())) GTEST_SKIP() << "not a CPU kernel: its bits are its device's own";
  for (const Shape& shape : shapes_of(GetParam().op)) {
    expect_all_same(Play(shape).run_all(GetParam(), 8, 2),
                    Play(shape).run_all(portable_of(GetParam()), 1000), GetParam().name);
  }
}

TEST_P(RecurrentTest, BitsDependNeitherOnChunksNorThreads) {
  const Shape shape = {.op = GetParam().op, .lengths = {50, 31, 2, 64}};
  const std::vector<Matrix> wanted = Play(shape).run_all(GetParam(), 1000);
  for (const int64_t chunk : {1, 2, 3, 16, 63}) {
    expect_all_same(Play(shape).run_all(GetParam(), chunk, static_cast<int>(chunk % 4) + 1), wanted,
                    std::to_string(chunk) + " rows");
  }
}

TEST_P(RecurrentTest, BitsDoNotDependOnTheOtherSequencesOfTheBatch) {
  const Shape all = {.op = GetParam().op, .lengths = {33, 20, 5}};
  const Shape first = {.op = GetParam().op, .lengths = {33}};
  const std::vector<Matrix> together = Play(all).run_all(GetParam(), 4, 3);
  const std::vector<Matrix> alone = Play(first).run_all(GetParam(), 9);
  expect_same_bits(together[0].view(), alone[0].view(), "sequence 0");
}

TEST_P(RecurrentTest, ASequenceDoesNotSeeThePreviousSequenceOfItsSlot) {
  const Shape shape = {.op = GetParam().op};
  Play play(shape);
  const std::vector<Matrix> first = play.run_all(GetParam(), 5);
  expect_all_same(play.run_all(GetParam(), 3), first, "once more");
}

// Exponents of both signs for which e^x overflows or underflows.
TEST_P(RecurrentTest, LargeKeysDoNotOverflow) {
  if (GetParam().op != Op::kWkv) GTEST_SKIP() << "this operator has no exponents";
  Play play({.op = Op::kWkv});
  play.scale_input(0, 300);
  for (const Matrix& out : play.run_all(GetParam(), 3)) {
    for (int64_t r = 0; r < out.view().rows; ++r) {
      for (int64_t c = 0; c < out.view().cols; ++c) {
        EXPECT_LE(std::abs(out.at(r, c)), 10) << "a mean of small numbers";
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, RecurrentTest, testing::ValuesIn(recurrent_kernels()),
                         kernel_name);

}  // namespace
}  // namespace lockstep
