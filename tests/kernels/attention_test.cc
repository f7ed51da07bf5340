// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include "tests/kernels/kernel_case.h"

namespace lockstep {
namespace {

struct Shape {
  int64_t heads = 4;
  int64_t kv_heads = 2;
  int64_t head_dim = 32;
  int64_t window = 0;
  std::vector<int64_t> lengths = {150};  // Of every sequence.
};

struct Schedule {
  int64_t chunk = 1000;  // Rows of a sequence a step.
  int64_t page_tokens = 16;
  int threads = 1;
  bool shuffle = true;
};

// Queries, keys and values of whole sequences, fed to a kernel step by step.
class Conversation {
 public:
  explicit Conversation(const Shape& shape, float key_size = 1) : shape_(shape) {
    for (size_t s = 0; s < shape.lengths.size(); ++s) {
      const auto seed = static_cast<uint32_t>(10 * s);
      const int64_t rows = shape.lengths[s];
      q_.push_back(Matrix::random(rows, shape.heads * shape.head_dim, seed));
      k_.push_back(Matrix::random(rows, shape.kv_heads * shape.head_dim, seed + 1));
      v_.push_back(Matrix::random(rows, shape.kv_heads * shape.head_dim, seed + 2));
      float* keys = k_.back().view().row<float>(0);
      for (int64_t i = 0; i < rows * k_.back().view().cols; ++i) keys[i] *= key_size;
    }
    for (int64_t h = 0; h < shape.heads; ++h) {
      kv_head_of_.push_back(static_cast<int32_t>(h * shape.kv_heads / shape.heads));
    }
  }
  void set_kv_head_of(std::vector<int32_t> map) { kv_head_of_ = std::move(map); }
  Matrix& v(size_t sequence) { return v_[sequence]; }

  // Outputs of every sequence, [length, heads * head_dim]. With the reference where kernel.run is.
  std::vector<Matrix> run_all(const KernelEntry& kernel, const Schedule& schedule) {
    start(kernel, schedule);
    std::vector<Matrix> outputs;
    for (const int64_t length : shape_.lengths) {
      outputs.emplace_back(length, shape_.heads * shape_.head_dim);
    }
    std::vector<int64_t> done(shape_.lengths.size(), 0);
    while (done != shape_.lengths) step(kernel, schedule, done, outputs);
    return outputs;
  }

 private:
  // Pages in random order, full of NaN.
  void start(const KernelEntry& kernel, const Schedule& schedule) {
    page_bytes_ =
        kv_page_bytes(schedule.page_tokens, shape_.kv_heads, shape_.head_dim, kernel.weight);
    const auto count = [&](int64_t length) {
      return (length + schedule.page_tokens - 1) / schedule.page_tokens;
    };
    int64_t total = 0;
    for (const int64_t length : shape_.lengths) total += count(length);
    std::vector<int32_t> ids(static_cast<size_t>(total));
    std::iota(ids.begin(), ids.end(), 0);
    std::mt19937 random(kTestSeed);
    if (schedule.shuffle) std::shuffle(ids.begin(), ids.end(), random);
    pages_.clear();
    auto next = ids.begin();
    for (const int64_t length : shape_.lengths) {
      pages_.emplace_back(next, next + count(length));
      next += count(length);
    }
    memory_.assign(static_cast<size_t>(total * page_bytes_), std::byte{0xff});
  }

  void step(const KernelEntry& kernel, const Schedule& schedule, std::vector<int64_t>& done,
            std::vector<Matrix>& outputs) {
    std::vector<StepSequence> sequences;
    std::vector<int32_t> positions, sequence_of_row;
    std::vector<size_t> which;
    for (size_t s = 0; s < done.size(); ++s) {
      const int64_t rows = std::min(schedule.chunk, shape_.lengths[s] - done[s]);
      if (rows == 0) continue;
      const auto first_row = static_cast<int64_t>(positions.size());
      for (int64_t r = 0; r < rows; ++r) {
        positions.push_back(static_cast<int32_t>(done[s] + r));
        sequence_of_row.push_back(static_cast<int32_t>(sequences.size()));
        which.push_back(s);
      }
      sequences.push_back({first_row, rows, done[s], pages_[s].data()});
      done[s] += rows;
    }
    const auto rows = static_cast<int64_t>(positions.size());
    const int64_t width = shape_.heads * shape_.head_dim;
    const int64_t kv_width = shape_.kv_heads * shape_.head_dim;
    Matrix q(rows, width), k(rows, kv_width, DType::kF32, kv_width + 3), v(rows, kv_width);
    const Matrix out(rows, width, DType::kF32, width + 1);
    for (size_t r = 0; r < which.size(); ++r) {
      const auto copy = [&](const Matrix& from, const Matrix& to) {
        std::memcpy(to.view().row<float>(static_cast<int64_t>(r)),
                    from.view().row<float>(positions[r]),
                    static_cast<size_t>(from.view().cols) * sizeof(float));
      };
      copy(q_[which[r]], q);
      copy(k_[which[r]], k);
      copy(v_[which[r]], v);
    }
    StepView view;
    view.rows = rows;
    view.positions = positions.data();
    view.sequence_of_row = sequence_of_row.data();
    view.sequences = sequences.data();
    view.sequence_count = static_cast<int64_t>(sequences.size());
    KernelArgs args;
    args.in[0] = q.view();
    args.in[1] = k.view();
    args.in[2] = v.view();
    args.out[0] = out.view();
    args.attrs.head_dim = shape_.head_dim;
    args.attrs.heads = shape_.heads;
    args.attrs.kv_heads = shape_.kv_heads;
    args.attrs.kv_head_of = kv_head_of_.data();
    args.attrs.scale = 1 / std::sqrt(static_cast<float>(shape_.head_dim));
    args.attrs.window = shape_.window;
    args.state = {memory_.data(), page_bytes_, static_cast<int64_t>(memory_.size()) / page_bytes_,
                  schedule.page_tokens, kernel.weight};
    args.step = &view;
    run(kernel, args, schedule.threads);
    for (size_t r = 0; r < which.size(); ++r) {
      std::memcpy(outputs[which[r]].view().row<float>(positions[r]),
                  out.view().row<float>(static_cast<int64_t>(r)),
                  static_cast<size_t>(width) * sizeof(float));
    }
  }

  Shape shape_;
  std::vector<Matrix> q_, k_, v_;
  std::vector<int32_t> kv_head_of_;
  std::vector<std::vector<int32_t>> pages_;
  std::vector<std::byte> memory_;
  int64_t page_bytes_ = 0;
};

KernelEntry reference_of(const KernelEntry& kernel) {
  KernelEntry plain = kernel;
  plain.run = reference::attention;
  return plain;
}

void expect_all_same(const std::vector<Matrix>& found, const std::vector<Matrix>& wanted,
                     const std::string& what) {
  for (size_t s = 0; s < wanted.size(); ++s) {
    expect_same_bits(found[s].view(), wanted[s].view(), what);
  }
}

class AttentionTest : public testing::TestWithParam<KernelEntry> {
 protected:
  void expect_reference(const Shape& shape, const Schedule& schedule, float key_size = 1) {
    Conversation conversation(shape, key_size);
    const auto wanted = conversation.run_all(reference_of(GetParam()), {.chunk = 1000});
    const auto found = conversation.run_all(GetParam(), schedule);
    for (size_t s = 0; s < wanted.size(); ++s) {
      expect_close(found[s].view(), wanted[s].view(), 4e-6 * key_size,
                   "head_dim " + std::to_string(shape.head_dim));
    }
  }
};

TEST_P(AttentionTest, AgreesWithTheReferenceForEveryHeadDim) {
  for (const int64_t dim : {1, 8, 15, 16, 17, 32, 33, 64, 80, 128, 256}) {
    expect_reference({.head_dim = dim, .lengths = {70, 3}}, {.chunk = 64, .threads = 2});
    expect_reference({.head_dim = dim, .lengths = {67}}, {.chunk = 1, .page_tokens = 32});
  }
}

TEST_P(AttentionTest, AgreesWithTheReferenceForEveryGroupOfHeads) {
  for (const auto& [heads, kv_heads] :
       {std::pair(1, 1), std::pair(3, 3), std::pair(8, 1), std::pair(32, 4), std::pair(70, 1)}) {
    expect_reference({.heads = heads, .kv_heads = kv_heads, .head_dim = 16}, {.threads = 2});
    expect_reference({.heads = heads, .kv_heads = kv_heads, .head_dim = 16, .lengths = {66}},
                     {.chunk = 1});
  }
}

TEST_P(AttentionTest, AgreesWithTheReferenceWhereOneKeyTakesAll) {
  expect_reference({.lengths = {130}}, {.chunk = 50}, 20);
}

TEST_P(AttentionTest, ASlidingWindowSeesItsLastPositionsOnly) {
  for (const int64_t window : {1, 2, 63, 64, 65, 100, 1000}) {
    expect_reference({.window = window, .lengths = {200}}, {.chunk = 1000});
    expect_reference({.window = window, .lengths = {200}}, {.chunk = 33, .page_tokens = 64});
  }
}

TEST_P(AttentionTest, HeadsFindTheirKvHeadByTheMapInAnyOrder) {
  Conversation conversation({.heads = 5, .kv_heads = 3, .lengths = {80}});
  conversation.set_kv_head_of({2, 0, 2, 2, 0});  // KV head 1 has no query head here.
  const auto wanted = conversation.run_all(reference_of(GetParam()), {});
  const auto found = conversation.run_all(GetParam(), {.chunk = 30, .threads = 2});
  expect_close(found[0].view(), wanted[0].view(), 4e-6, "map");
}

TEST_P(AttentionTest, BitsDependNeitherOnChunksNorPagesNorThreads) {
  for (const int64_t window : {0, 40}) {
    Conversation conversation({.heads = 8, .window = window, .lengths = {200, 77, 1, 64}});
    const auto wanted =
        conversation.run_all(GetParam(), {.chunk = 1000, .page_tokens = 64, .shuffle = false});
    for (const int64_t page_tokens : {1, 8, 16, 32, 64}) {
      for (const int64_t chunk : {1, 7, 64, 1000}) {
        if (page_tokens < 16 && chunk == 1) continue;
        const int threads = static_cast<int>(1 + (chunk + page_tokens) % 3);
        const auto found = conversation.run_all(GetParam(), {chunk, page_tokens, threads, true});
        expect_all_same(found, wanted,
                        std::to_string(chunk) + " rows, pages of " + std::to_string(page_tokens));
      }
    }
  }
}

TEST_P(AttentionTest, BitsDoNotDependOnTheOtherSequencesOfTheBatch) {
  const Shape all = {.lengths = {90, 30, 65}}, first = {.lengths = {90}};
  Conversation together(all), alone(first);
  const auto many = together.run_all(GetParam(), {.chunk = 13, .threads = 3});
  const auto one = alone.run_all(GetParam(), {.chunk = 13});
  expect_same_bits(many[0].view(), one[0].view(), "sequence 0");
}

TEST_P(AttentionTest, EveryIsaGivesTheSameBits) {
  if (!has_cpu_bits(GetParam())) GTEST_SKIP() << "no CPU kernel: its bits are its device's own";
  const KernelEntry* portable =
      find_kernel(cpu_kernels(), Op::kAttention, GetParam().weight, DType::kF32, Isa::kPortable);
  for (const int64_t dim : {8, 64, 80}) {
    Conversation conversation({.heads = 6, .head_dim = dim, .lengths = {140, 20}});
    for (const int64_t chunk : {17, 1000}) {
      expect_all_same(conversation.run_all(GetParam(), {.chunk = chunk}),
                      conversation.run_all(*portable, {.chunk = chunk}), GetParam().name);
    }
  }
}

TEST_P(AttentionTest, ALaterPositionsNanDoesNotReachEarlierOnes) {
  Conversation conversation({.lengths = {100}});
  const auto clean = conversation.run_all(GetParam(), {});
  for (int64_t c = 0; c < 64; ++c) conversation.v(0).view().row<float>(70)[c] = std::nanf("");
  const auto poisoned = conversation.run_all(GetParam(), {});
  TensorView found = poisoned[0].view(), wanted = clean[0].view();
  found.rows = wanted.rows = 70;
  expect_same_bits(found, wanted, "before the NaN");
  EXPECT_TRUE(std::isnan(poisoned[0].at(70, 0)));
}

TEST_P(AttentionTest, NoRowsAndNoHeadsAreNothingToDo) {
  StepView step;
  KernelArgs args;
  args.step = &step;
  args.attrs.head_dim = 8;
  args.state.page_tokens = 16;
  run(GetParam(), args);
  step.rows = 3;
  run(GetParam(), args);
}

INSTANTIATE_TEST_SUITE_P(Cpu, AttentionTest, testing::ValuesIn(kernels_of(Op::kAttention)),
                         kernel_name);

}  // namespace
}  // namespace lockstep
