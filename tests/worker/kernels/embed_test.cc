// SPDX-License-Identifier: Apache-2.0
// Look-up of rows, by token and by position.
#include <cmath>

#include "tests/worker/kernels/weights_case.h"

namespace lockstep {
namespace {

TEST(EmbedTest, RowsOfPositionsBeginAtTheOffset) {
  const int32_t tokens[] = {7, -1, 7}, positions[] = {0, 1, 40};
  for (const KernelEntry& kernel : kernels_of(Op::kEmbed)) {
    const Weights weight = Weights::random(43, 33, 1, kernel.weight);
    std::vector<std::byte> packed = weight.pack(kernel);
    StepView step;
    step.rows = 3;
    step.tokens = tokens;
    step.positions = positions;
    Matrix found(3, 33), wanted(3, 33);
    KernelArgs args;
    args.in[0] = weight.view();
    args.attrs = EmbedAttrs{.by_position = true, .offset = 2};
    args.step = &step;
    args.out[0] = wanted.view();
    reference::kernel(Op::kEmbed)(args);
    EXPECT_EQ(wanted.at(2, 4), reference::element(weight.view(), 42, 4));
    args.in[0].data = packed.data();
    args.out[0] = found.view();
    run(kernel, args);
    expect_same_bits(found.view(), wanted.view(), kernel.name);
  }
}

TEST(EmbedTest, RanksSumToTheRowBitForBit) {
  const int32_t tokens[] = {0, 63, -1, 64, 99, -1, 5};
  const Matrix embeddings = Matrix::random(2, 33, 9);
  for (const KernelEntry& kernel : kernels_of(Op::kEmbed)) {
    const Weights weight = Weights::random(100, 33, 1, kernel.weight);
    StepView step;
    step.rows = 7;
    step.tokens = tokens;
    step.embeddings = embeddings.view().row<float>(0);
    std::vector<Matrix> parts;
    // The first rank has no rows.
    for (const auto& [begin, end] : {std::pair(0, 0), std::pair(0, 64), std::pair(64, 100)}) {
      parts.emplace_back(7, 33);
      KernelArgs args;
      const Weights slice = weight.slice(begin, end);
      std::vector<std::byte> packed = slice.pack(kernel);
      args.in[0] = slice.view();
      args.in[0].data = packed.data();
      args.attrs = EmbedAttrs{.vocab_begin = begin};
      args.step = &step;
      args.out[0] = parts.back().view();
      run(kernel, args, 2);
    }
    Matrix total(7, 33), wanted(7, 33);
    for (int64_t r = 0; r < 7; ++r) {
      for (int64_t c = 0; c < 33; ++c) {
        const float sum = parts[0].at(r, c) + parts[1].at(r, c) + parts[2].at(r, c);
        reference::set_element(total.view(), r, c, sum);
      }
    }
    KernelArgs args;
    args.in[0] = weight.view();
    args.attrs = EmbedAttrs{};
    args.step = &step;
    args.out[0] = wanted.view();
    reference::kernel(Op::kEmbed)(args);
    expect_same_bits(total.view(), wanted.view(), kernel.name);
    EXPECT_EQ(wanted.at(5, 4), embeddings.at(1, 4));
    EXPECT_TRUE(std::signbit(parts[0].at(0, 0)));
    EXPECT_EQ(parts[0].at(2, 0), 0.0f);
  }
}

// The per-layer embedding (`beside`).
TEST(EmbedTest, RowsGivenAsEmbeddingsGetTheRowOfAbsentId) {
  const int32_t tokens[] = {7, -1, 42}, seven[] = {7, 7, 42};
  for (const KernelEntry& kernel : kernels_of(Op::kEmbed)) {
    const Weights weight = Weights::random(43, 33, 1, kernel.weight);
    std::vector<std::byte> packed = weight.pack(kernel);
    StepView step;
    step.rows = 3;
    step.tokens = tokens;
    Matrix found(3, 33), wanted(3, 33), by_reference(3, 33);
    KernelArgs args;
    args.in[0] = weight.view();
    args.attrs = EmbedAttrs{.beside = true, .absent_id = 7};
    args.step = &step;
    args.out[0] = by_reference.view();
    reference::kernel(Op::kEmbed)(args);
    args.in[0].data = packed.data();
    args.out[0] = found.view();
    run(kernel, args);
    step.tokens = seven;
    args.attrs = EmbedAttrs{};
    args.out[0] = wanted.view();
    run(kernel, args);
    expect_same_bits(found.view(), wanted.view(), kernel.name);
    expect_same_bits(found.view(), by_reference.view(), kernel.name);
  }
}

}  // namespace
}  // namespace lockstep
