// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/system/cpu.h"
#include "tests/worker/kernels/conversation.h"

namespace lockstep {
namespace {

KernelEntry reference_of(const KernelEntry& kernel) {
  KernelEntry plain = kernel;
  plain.run = reference::kernel(Op::kAttention);
  return plain;
}

// A GPU rounds codes times their scale to bfloat16, and queries and weights of keys as for bfloat16
// pages.
bool has_codes_as_bf16(const KernelEntry& kernel) {
  return kernel.weight == DType::kI8 && !has_cpu_bits(kernel);
}

// The kernel for bfloat16 pages with the same name otherwise.
KernelEntry bf16_beside(const KernelEntry& kernel) {
  std::string name = kernel.name;
  name.replace(name.find("_i8"), 3, "_bf16");
  for (const KernelEntry& other : kernels_of(Op::kAttention)) {
    if (other.name == name) return other;
  }
  return {};
}

void expect_all_same(const std::vector<Matrix>& found, const std::vector<Matrix>& wanted,
                     const std::string& what) {
  for (size_t s = 0; s < wanted.size(); ++s) {
    expect_same_bits(found[s].view(), wanted[s].view(), what);
  }
}

// The kernel and the reference compute with the same rounded keys, values and queries (for a GPU's
// int8 pages the reference gets the numbers for which codes stand, in bfloat16 pages). The error
// comes from float32 arithmetic (`slack`, relative to 1 + the result) and from the rounded weights
// of keys. bfloat16: each weight is off by at most 2^-8 of itself. int8: each weight times the
// scale of its value becomes a code, which is off by at most half a code. In a block of 64 keys the
// largest code is 32767.
double weight_error(DType dtype) {
  return dtype == DType::kBF16 ? 0x1p-8 : dtype == DType::kI8 ? 64 * 0.5 / 32767 : 0;
}

void expect_within_rounding(const Matrix& found, const Matrix& wanted, const Matrix& magnitudes,
                            DType dtype, double slack, const std::string& what, int64_t first_row) {
  const double unit = weight_error(dtype);
  for (int64_t r = first_row; r < wanted.view().rows; ++r) {
    for (int64_t c = 0; c < wanted.view().cols; ++c) {
      const double tolerance = unit * magnitudes.at(r, c) + slack * (1 + std::abs(wanted.at(r, c)));
      ASSERT_NEAR(found.at(r, c), wanted.at(r, c), tolerance) << what << " at " << r << ", " << c;
    }
  }
}

class AttentionTest : public testing::TestWithParam<KernelEntry> {
 protected:
  // CPUs split keys into larger parts than GPUs. Kernels of GPUs are slow over the shim.
  static std::vector<int64_t> lengths(std::initializer_list<int64_t> on_cpu,
                                      std::initializer_list<int64_t> on_gpu) {
    return has_cpu_bits(GetParam()) ? on_cpu : on_gpu;
  }
  void expect_reference(Conversation& conversation, const Schedule& schedule,
                        const std::string& what, double slack = 4e-6, int64_t first_row = 0) {
    const auto found = conversation.run_all(GetParam(), schedule);
    KernelEntry plain = reference_of(GetParam());
    if (has_codes_as_bf16(GetParam())) {
      conversation.round_to_codes();
      plain.weight = DType::kBF16;
    }
    const auto wanted = conversation.run_all(plain, {});
    conversation.take_magnitudes(plain.weight);
    const auto magnitudes = conversation.run_all(plain, {});
    for (size_t s = 0; s < wanted.size(); ++s) {
      expect_within_rounding(found[s], wanted[s], magnitudes[s], plain.weight, slack, what,
                             first_row);
    }
  }
  void expect_reference(const Shape& shape, const Schedule& schedule, float key_size = 1) {
    Conversation conversation(shape, key_size);
    expect_reference(conversation, schedule, "head_dim " + std::to_string(shape.head_dim),
                     4e-6 * key_size);
  }
};

TEST_P(AttentionTest, AttentionAgreesWithTheReferenceForEveryHeadDim) {
  for (const int64_t dim : {1, 8, 15, 16, 17, 33, 64, 80, 96, 128, 256}) {
    expect_reference({.head_dim = dim, .lengths = {70, 3}}, {.chunk = 64, .threads = 2});
    expect_reference({.head_dim = dim, .lengths = {67}}, {.chunk = 1, .page_tokens = 32});
  }
}

TEST_P(AttentionTest, AttentionAgreesWithTheReferenceForEveryGroupOfHeads) {
  for (const auto& [heads, kv_heads] :
       {std::pair(1, 1), std::pair(3, 3), std::pair(4, 2), std::pair(3, 1), std::pair(4, 1),
        std::pair(5, 1), std::pair(6, 1), std::pair(14, 2), std::pair(8, 1), std::pair(32, 4),
        std::pair(70, 1)}) {
    expect_reference({.heads = heads, .kv_heads = kv_heads, .head_dim = 16}, {.threads = 2});
    expect_reference({.heads = heads, .kv_heads = kv_heads, .head_dim = 16, .lengths = {66}},
                     {.chunk = 1});
  }
}

TEST_P(AttentionTest, AttentionAgreesWithTheReferenceIfOneKeyTakesAllWeight) {
  expect_reference({.lengths = {130}}, {.chunk = 50}, 20);
}

TEST_P(AttentionTest, ASlidingWindowSeesOnlyItsLastPositions) {
  for (const int64_t window : {1, 2, 63, 65, 127, 128, 129, 1000}) {
    expect_reference({.window = window, .lengths = {300}}, {.chunk = 1000});
    expect_reference({.window = window, .lengths = {300}}, {.chunk = 33, .page_tokens = 64});
  }
}

TEST_P(AttentionTest, AChunkSeesOnlyItsOwnPositions) {
  for (const int64_t chunk : {1, 9, 64, 1000}) {
    expect_reference({.head_dim = 16, .chunk = chunk, .lengths = {130}},
                     {.chunk = 33, .page_tokens = 64, .threads = 2});
  }
  expect_reference({.head_dim = 16, .window = 40, .chunk = 64, .lengths = {130}}, {.chunk = 1000});
}

// Attention is limited to chunks of 1100 positions. On a CPU the last rows of the first chunk see
// two parts of keys, which different threads process.
TEST_P(AttentionTest, ChunksHaveTheSameBitsForAnyStepsOfThePrompt) {
  Conversation conversation(
      {.heads = 2, .kv_heads = 1, .head_dim = 8, .chunk = 1100, .lengths = {1150, 77}});
  const auto wanted = conversation.run_all(GetParam(), {.chunk = 2000});
  const Schedule schedule = {.chunk = 29, .threads = 16};
  expect_all_same(conversation.run_all(GetParam(), schedule), wanted, "cut");
  if (!has_cpu_bits(GetParam())) return;
  const KernelEntry* portable =
      find_kernel(cpu_kernels(), Op::kAttention, GetParam().weight, DType::kF32, Isa::kPortable);
  expect_all_same(wanted, conversation.run_all(*portable, {.chunk = 2000}), GetParam().name);
}

TEST_P(AttentionTest, ValuesNarrowerAndWiderThanKeysAgreeWithTheReference) {
  for (const auto& [k_dim, v_dim] : {std::pair(33, 16), std::pair(8, 40)}) {
    expect_reference({.head_dim = k_dim, .v_dim = v_dim, .lengths = {70, 7}},
                     {.chunk = 33, .page_tokens = 32, .threads = 2});
  }
}

TEST_P(AttentionTest, ValuesInKeysAgreeWithTheReference) {
  for (const auto& [k_dim, v_dim] : {std::pair(1, 1), std::pair(33, 17), std::pair(40, 32)}) {
    const Shape shape = {
        .head_dim = k_dim, .v_dim = v_dim, .values_in_keys = true, .lengths = {70, 3}};
    expect_reference(shape, {.chunk = 64, .page_tokens = 64, .threads = 2});
    expect_reference(shape, {.chunk = 1});
  }
  const Shape shape = {.heads = 70,
                       .kv_heads = 1,
                       .head_dim = 24,
                       .v_dim = 16,
                       .values_in_keys = true,
                       .window = 40,
                       .sinks = true,
                       .lengths = {50}};
  expect_reference(shape, {.chunk = 30}, 3);
}

// The bits must be those of pages that store each key twice, as a key and as a value. The last rows
// see several parts of keys, which different threads process. Kernels on tensor cores would give
// other bits, but they do not take heads of 20 columns.
TEST_P(AttentionTest, ValuesInKeysHaveTheBitsOfKeysStoredAgainAsValues) {
  Shape shape = {.heads = 2,
                 .kv_heads = 1,
                 .head_dim = 20,
                 .v_dim = 17,
                 .values_in_keys = true,
                 .lengths = {1040}};
  Conversation in_keys(shape);
  shape.v_dim = 20;
  shape.values_in_keys = false;
  Conversation beside(shape);
  const TensorView &k = beside.k(0).view(), &v = beside.v(0).view();
  std::copy_n(k.row<float>(0), k.rows * k.cols, v.row<float>(0));
  const auto wanted = beside.run_all(GetParam(), {});
  for (const Schedule& schedule : {Schedule{.chunk = 29, .threads = 16},
                                   Schedule{.chunk = 300, .page_tokens = 32, .read_again = true}}) {
    const auto found = in_keys.run_all(GetParam(), schedule);
    for (int64_t head = 0; head < shape.heads; ++head) {
      TensorView mine = found[0].view(), others = wanted[0].view();
      mine.data = mine.row<float>(0) + head * 17;
      others.data = others.row<float>(0) + head * 20;
      mine.cols = others.cols = 17;
      expect_same_bits(mine, others, "head " + std::to_string(head));
    }
  }
}

TEST_P(AttentionTest, AStepThatOnlyReadsPagesHasTheBitsOfTheStepThatAppended) {
  Conversation conversation({.heads = 6, .kv_heads = 2, .window = 40, .lengths = {150, 7}});
  const auto wanted = conversation.run_all(GetParam(), {.chunk = 33, .threads = 2});
  const Schedule again = {.chunk = 33, .threads = 2, .read_again = true};
  expect_all_same(conversation.run_all(GetParam(), again), wanted, "read again");
  expect_all_same(conversation.run_all(reference_of(GetParam()), again),
                  conversation.run_all(reference_of(GetParam()), {.chunk = 33}), "reference");
}

TEST_P(AttentionTest, CappedScoresAgreeWithTheReference) {
  for (const float cap : {0.5f, 50.0f}) {
    expect_reference({.cap = cap, .lengths = {300}}, {.chunk = 33, .threads = 2}, 5);
    expect_reference({.window = 40, .cap = cap, .lengths = {130, 7}}, {.chunk = 1}, 5);
  }
}

TEST_P(AttentionTest, RowsOfAPrefixSeeEachOther) {
  for (const int64_t prefix : {1, 2, 17, 64, 65, 130}) {
    expect_reference({.lengths = {150, 40}, .prefix_rows = prefix}, {.chunk = 9, .threads = 2});
    expect_reference({.window = 40, .lengths = {150}, .prefix_rows = prefix}, {.chunk = 1});
  }
}

TEST_P(AttentionTest, APrefixHasTheSameBitsForAnyRowsAfterItInItsStep) {
  Conversation conversation(
      {.heads = 3, .kv_heads = 1, .head_dim = 16, .lengths = {580, 77}, .prefix_rows = 530});
  const auto wanted = conversation.run_all(GetParam(), {.chunk = 2000});
  for (const int threads : {1, 5}) {
    const Schedule schedule = {.chunk = threads == 1 ? 540 : 11, .threads = threads};
    expect_all_same(conversation.run_all(GetParam(), schedule), wanted, "cut");
  }
  if (!has_cpu_bits(GetParam())) return;
  const KernelEntry* portable =
      find_kernel(cpu_kernels(), Op::kAttention, GetParam().weight, DType::kF32, Isa::kPortable);
  expect_all_same(wanted, conversation.run_all(*portable, {.chunk = 64}), GetParam().name);
}

TEST_P(AttentionTest, SlopesAndSinksAgreeWithTheReference) {
  for (const bool sinks : {false, true}) {
    const bool slopes = !sinks;
    expect_reference({.heads = 6, .slopes = slopes, .sinks = sinks, .lengths = {300, 7}},
                     {.chunk = 33, .threads = 2}, 3);
    expect_reference({.window = 40, .slopes = true, .sinks = sinks, .lengths = {130}},
                     {.chunk = 1, .page_tokens = 64}, 3);
  }
  expect_reference({.cap = 5, .slopes = true, .sinks = true, .lengths = {130}}, {.chunk = 50}, 3);
}

TEST_P(AttentionTest, SlopesAndSinksHaveTheSameBitsForAnyChunksAndThreads) {
  Conversation conversation({.heads = 3,
                             .kv_heads = 1,
                             .head_dim = 16,
                             .slopes = true,
                             .sinks = true,
                             .lengths = lengths({1300, 77}, {330, 77})});
  const auto wanted = conversation.run_all(GetParam(), {.chunk = 2000});
  for (const int threads : {1, 5}) {
    const Schedule schedule = {.chunk = threads == 1 ? 700 : 13, .threads = threads};
    expect_all_same(conversation.run_all(GetParam(), schedule), wanted, "cut");
  }
  if (!has_cpu_bits(GetParam())) return;
  const KernelEntry* portable =
      find_kernel(cpu_kernels(), Op::kAttention, GetParam().weight, DType::kF32, Isa::kPortable);
  expect_all_same(wanted, conversation.run_all(*portable, {.chunk = 64}), GetParam().name);
}

TEST_P(AttentionTest, QueryHeadsMayUseTheKvHeadsInAnyOrder) {
  Conversation conversation({.heads = 5, .kv_heads = 3, .lengths = {80}});
  conversation.set_kv_head_of({2, 0, 2, 2, 0});  // KV head 1 has no query head.
  expect_reference(conversation, {.chunk = 30, .threads = 2}, "map");
}

TEST_P(AttentionTest, BitsDependNeitherOnChunksNorPagesNorThreads) {
  for (const int64_t window : {0, 40}) {
    Conversation conversation(
        {.heads = 8, .window = window, .lengths = lengths({200, 77, 1, 64}, {90, 33, 1, 64})});
    const auto wanted =
        conversation.run_all(GetParam(), {.chunk = 1000, .page_tokens = 64, .shuffle = false});
    for (const int64_t page_tokens : {16, 32, 64}) {
      for (const int64_t chunk : {1, 7, 64, 1000}) {
        const int threads = static_cast<int>(1 + (chunk + page_tokens) % 3);
        const auto found = conversation.run_all(GetParam(), {chunk, page_tokens, threads, true});
        expect_all_same(found, wanted,
                        std::to_string(chunk) + " rows, pages of " + std::to_string(page_tokens));
      }
    }
  }
}

// On CPUs more than 1024 keys have several parts, on GPUs more than 256. In a step with few rows,
// different threads process the parts. For GPUs the first step has too many rows for that.
TEST_P(AttentionTest, LongSequencesAgreeWithTheReferenceAndHaveTheSameBitsForAnyChunks) {
  Conversation conversation(
      {.heads = 3, .kv_heads = 1, .head_dim = 16, .lengths = lengths({2200, 1025}, {900, 260})});
  const auto wanted = conversation.run_all(GetParam(), {.chunk = 3000});
  for (const int threads : {1, 5}) {
    const Schedule schedule = {.chunk = threads == 1 ? 700 : 13, .threads = threads};
    expect_all_same(conversation.run_all(GetParam(), schedule), wanted, "long");
  }
  expect_reference(conversation, {.chunk = 3000}, "long");
}

// Codes of int8 pages become bfloat16 before they are multiplied. So the bits are those of bfloat16
// pages with these numbers.
TEST_P(AttentionTest, CodesHaveTheBitsOfBfloat16PagesWithTheNumbersForWhichTheyStand) {
  if (!has_codes_as_bf16(GetParam())) GTEST_SKIP() << "the pages are no GPU's int8 pages";
  const Shape shapes[] = {
      {.heads = 8, .kv_heads = 2, .head_dim = 64, .lengths = {300, 7}},
      {.heads = 4, .kv_heads = 1, .head_dim = 128, .window = 90, .sinks = true, .lengths = {170}},
      {.heads = 2, .kv_heads = 1, .head_dim = 256, .cap = 20, .lengths = {300}},
      {.heads = 3, .kv_heads = 3, .head_dim = 80, .slopes = true, .lengths = {70}},
      {.heads = 3, .kv_heads = 1, .head_dim = 20, .lengths = {70}},
      {.heads = 3, .kv_heads = 1, .head_dim = 20, .v_dim = 11, .values_in_keys = true},
  };
  for (const Shape& shape : shapes) {
    for (const Schedule& schedule : {Schedule{.last_alone = 2}, Schedule{.page_tokens = 64}}) {
      Conversation conversation(shape);
      const auto found = conversation.run_all(GetParam(), schedule);
      conversation.round_to_codes();
      expect_all_same(found, conversation.run_all(bf16_beside(GetParam()), schedule),
                      "heads of " + std::to_string(shape.head_dim));
    }
  }
}

// GPUs have another kernel for steps in which each sequence has one row.
TEST_P(AttentionTest, RowsAloneHaveTheBitsOfAPrompt) {
  const Shape shapes[] = {
      {.heads = 1, .kv_heads = 1, .head_dim = 16, .lengths = {65, 256, 257, 1, 1100}},
      {.heads = 4, .kv_heads = 1, .head_dim = 128, .lengths = {70, 260}},
      {.heads = 1, .kv_heads = 1, .head_dim = 256, .lengths = {20, 130, 260}},
      {.heads = 17, .kv_heads = 1, .head_dim = 144, .window = 20, .lengths = {134}},
      {.heads = 9, .kv_heads = 1, .head_dim = 64, .lengths = {130}},
      {.heads = 16, .kv_heads = 1, .head_dim = 80, .lengths = {20, 67}},
      {.heads = 40, .kv_heads = 2, .head_dim = 16, .lengths = {66}},
      {.heads = 2, .kv_heads = 1, .head_dim = 16, .window = 40, .lengths = {290, 130, 39}},
      {.heads = 1, .kv_heads = 1, .head_dim = 16, .window = 300, .lengths = {580}},
      {.heads = 1, .kv_heads = 1, .head_dim = 8, .chunk = 270, .lengths = {280, 540}},
      {.heads = 6, .head_dim = 16, .cap = 3, .slopes = true, .sinks = true, .lengths = {270, 17}},
      {.heads = 4, .head_dim = 16, .lengths = {67, 130}, .prefix_rows = 20},
  };
  int64_t page_tokens = 16;
  for (const Shape& shape : shapes) {
    Conversation conversation(shape);
    if (shape.sinks) conversation.set_kv_head_of({1, 0, 0, 1, 0, 1});
    page_tokens = page_tokens % 64 == 0 ? 16 : page_tokens * 2;
    const auto found = conversation.run_all(
        GetParam(), {.chunk = 2000, .page_tokens = page_tokens, .last_alone = 3});
    expect_all_same(found, conversation.run_all(GetParam(), {.chunk = 2000}),
                    std::to_string(shape.heads) + " heads of " + std::to_string(shape.head_dim));
  }
}

TEST_P(AttentionTest, BitsDoNotDependOnTheLengthLimitOfSequences) {
  Conversation conversation({.heads = 2, .kv_heads = 1, .lengths = {270, 5}});
  const auto wanted = conversation.run_all(GetParam(), {.chunk = 200});
  for (const int64_t longest : {512, 2048}) {
    expect_all_same(conversation.run_all(GetParam(), {.chunk = 200, .longest = longest}), wanted,
                    "longest " + std::to_string(longest));
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
  if (!has_cpu_bits(GetParam())) GTEST_SKIP() << "not a CPU kernel: its bits are its device's own";
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
  for (const int64_t position : {71, 70}) {  // The second position of a pair, then both.
    for (int64_t c = 0; c < 64; ++c) {
      conversation.v(0).view().row<float>(position)[c] = std::nanf("");
    }
    const auto poisoned = conversation.run_all(GetParam(), {});
    TensorView found = poisoned[0].view(), wanted = clean[0].view();
    found.rows = wanted.rows = position;
    expect_same_bits(found, wanted, "before the NaN");
    EXPECT_TRUE(std::isnan(poisoned[0].at(position, 0)));
  }
}

TEST_P(AttentionTest, ZeroVectorsAndHugeValuesAgreeWithTheReference) {
  Conversation conversation({.heads = 4, .kv_heads = 1, .head_dim = 64, .lengths = {90}});
  for (const int64_t position : {0, 3, 64, 70}) {
    std::fill_n(conversation.k(0).view().row<float>(position), 64, 0.0f);
    std::fill_n(conversation.v(0).view().row<float>(position + 1), 64, 0.0f);
  }
  conversation.v(0).view().row<float>(20)[7] = 1e20f;
  conversation.v(0).view().row<float>(33)[9] = -1e-20f;
  conversation.k(0).view().row<float>(40)[5] = 1e4f;
  std::fill_n(conversation.q(0).view().row<float>(50), 256, 0.0f);
  expect_reference(conversation, {.chunk = 40}, "extremes", 2e-3);
}

// The scores of the first keys overflow to -inf: 130 keys fill blocks, and 1030 keys fill a part.
// In rows that also see later keys, the first keys have no weight, since exp(-inf) is 0.
TEST_P(AttentionTest, BlocksWithOnlyScoresOfMinusInfinityHaveNoWeight) {
  for (const int64_t hidden : {130, 1030}) {
    Conversation conversation(
        {.heads = 2, .kv_heads = 1, .head_dim = 16, .lengths = {hidden + 100}}, 1e-20f);
    const TensorView &q = conversation.q(0).view(), &k = conversation.k(0).view();
    std::fill_n(q.row<float>(0), q.rows * q.cols, 1e20f);
    std::fill_n(k.row<float>(0), hidden * k.cols, -1e20f);
    expect_reference(conversation, {.chunk = 300}, "after " + std::to_string(hidden), 2e-5, hidden);
    expect_reference(conversation, {.chunk = 300, .threads = 3}, "threads", 2e-5, hidden);
  }
}

TEST_P(AttentionTest, NoRowsOrNoHeadsWriteNothing) {
  const Matrix out(3, 8);
  StepView step;
  KernelArgs args;
  args.step = &step;
  args.out[0].data = out.view().data;
  args.attrs = AttentionAttrs{.head_dim = 8};
  args.state.page_tokens = 16;
  run(GetParam(), args);
  step.rows = 3;
  run(GetParam(), args);
  EXPECT_TRUE(out.is_untouched());
}

// Codes of 8 bits have a uniform error of up to half a code, with a standard deviation of 0.29 of a
// code. The data is normal: the largest of 64 numbers, whose code is 127, is 2.4 standard
// deviations on average. So the error is 0.55 % of a key's or value's size. The errors of keys and
// values add up.
TEST_P(AttentionTest, Int8PagesAreWithinTwoPercentOfFloat32) {
  if (GetParam().weight != DType::kI8) GTEST_SKIP() << "other pages";
  Conversation conversation({.heads = 4, .kv_heads = 1, .head_dim = 64, .lengths = {300}});
  const auto exact = conversation.run_all(
      *find_kernel(cpu_kernels(), Op::kAttention, DType::kF32, DType::kF32, machine_isa()), {});
  const auto rounded = conversation.run_all(GetParam(), {});
  double error = 0, size = 0;
  for (int64_t r = 0; r < 300; ++r) {
    for (int64_t c = 0; c < 256; ++c) {
      error += std::pow(rounded[0].at(r, c) - exact[0].at(r, c), 2);
      size += std::pow(exact[0].at(r, c), 2);
    }
  }
  EXPECT_LT(std::sqrt(error / size), 0.02);
  EXPECT_GT(std::sqrt(error / size), 0.001);
}

// The emulated kernels need AVX-512 instructions, which not every machine has.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(AttentionTest);
INSTANTIATE_TEST_SUITE_P(Cpu, AttentionTest, testing::ValuesIn(kernels_of(Op::kAttention)),
                         kernel_name);

}  // namespace
}  // namespace lockstep
