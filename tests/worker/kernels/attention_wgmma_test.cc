// SPDX-License-Identifier: Apache-2.0
// Prompts' attention by wgmma, over the shim and on a GPU that has it, has the bits of attention by
// mma.sync over the shim, for any division of the work.
#include "worker/kernels/cuda/hopper/attention_wgmma.h"

#include <bit>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "tests/worker/kernels/conversation.h"
#include "worker/kernels/cuda/hopper/attention_softmax.h"
#include "worker/kernels/cuda/shim/table.h"
#include "worker/kernels/device.h"

namespace lockstep {
namespace {

KernelEntry kernel_named(const std::string& name) {
  for (const KernelEntry& kernel : kernels_under_test()) {
    if (kernel.name == name) return kernel;
  }
  return {};
}
KernelEntry by_mma() { return kernel_named("attention_bf16_cuda_shim"); }

// The kernel of a table with each division of the work; GPUs without wgmma have none.
std::vector<KernelEntry> divided() {
  static std::string problem;
  static const std::unique_ptr<Device> gpu = open_cuda_device(0, &problem);
  std::vector<KernelEntry> found;
  const auto add = [&](const char* name, std::span<const AttentionVariant> variants) {
    for (const AttentionVariant& variant : variants) {
      found.push_back(kernel_named(name));
      found.back().run = variant.run;
    }
  };
  add("attention_wgmma_bf16_cuda_shim", attention_shim_variants());
  if (gpu != nullptr) add("attention_wgmma_bf16_cuda", attention_variants_of(*gpu));
  return found;
}

void expect_bits_of_mma(Conversation& conversation, const Schedule& schedule, const char* what) {
  const auto wanted = conversation.run_all(by_mma(), {.chunk = 2000});
  int order = 0;
  for (const KernelEntry& kernel : divided()) {
    shim::set_order(++order % 2 == 0 ? shim::Order::kAscending : shim::Order::kDescending);
    const auto found = conversation.run_all(kernel, schedule);
    for (size_t s = 0; s < wanted.size(); ++s) {
      expect_same_bits(found[s].view(), wanted[s].view(),
                       std::string(what) + ", division " + std::to_string(order));
    }
  }
}
void expect_bits_of_mma(const Shape& shape, const Schedule& schedule, const char* what) {
  Conversation conversation(shape);
  expect_bits_of_mma(conversation, schedule, what);
}

TEST(AttentionWgmmaTest, EveryGroupOfHeadsHasTheBitsOfMmaSync) {
  for (const auto& [heads, kv_heads] :
       {std::pair(2, 2), std::pair(4, 2), std::pair(3, 1), std::pair(5, 1), std::pair(16, 1)}) {
    const Shape shape = {
        .heads = heads, .kv_heads = kv_heads, .head_dim = 64, .lengths = {70, 3, 17}};
    expect_bits_of_mma(shape, {}, "heads of 64");
  }
}

TEST(AttentionWgmmaTest, EveryWidthOfHeadsAndPageHasTheBitsOfMmaSync) {
  int64_t page_tokens = 16;
  for (const int64_t dim : {128, 80, 8}) {
    const Shape shape = {.heads = 4, .kv_heads = 1, .head_dim = dim, .lengths = {140, 2}};
    expect_bits_of_mma(shape, {.page_tokens = page_tokens}, "widths");
    page_tokens *= 2;
  }
}

TEST(AttentionWgmmaTest, ChunksAfterACachedPrefixHaveTheBitsOfMmaSync) {
  const Shape shape = {.heads = 4, .kv_heads = 1, .head_dim = 64, .lengths = {200, 131}};
  expect_bits_of_mma(shape, {.chunk = 90}, "90 rows");
  expect_bits_of_mma(shape, {.chunk = 37, .page_tokens = 64}, "37 rows");
}

// The last sequence ends in the middle of a page, a block and a split.
TEST(AttentionWgmmaTest, SeveralSplitsHaveTheBitsOfMmaSync) {
  const Shape narrow = {.heads = 1, .kv_heads = 1, .head_dim = 16, .lengths = {600, 256, 257}};
  expect_bits_of_mma(narrow, {}, "narrow");
  const Shape wide = {.heads = 8, .kv_heads = 1, .head_dim = 128, .lengths = {790}};
  expect_bits_of_mma(wide, {.chunk = 768}, "wide");  // The prompt's last rows see four splits.
}

TEST(AttentionWgmmaTest, WindowsChunksAndPrefixesHaveTheBitsOfMmaSync) {
  const Shape shapes[] = {
      {.heads = 2, .kv_heads = 1, .head_dim = 16, .window = 40, .lengths = {300}},
      {.heads = 2, .kv_heads = 1, .head_dim = 128, .window = 300, .lengths = {420}},
      {.heads = 2, .kv_heads = 1, .head_dim = 16, .chunk = 100, .lengths = {230, 70}},
      {.heads = 2, .kv_heads = 1, .head_dim = 16, .lengths = {130, 40}, .prefix_rows = 70},
  };
  for (const Shape& shape : shapes) expect_bits_of_mma(shape, {}, "windows");
  expect_bits_of_mma(shapes[0], {.chunk = 100, .page_tokens = 32}, "a window and chunks");
}

// More heads use KV head 2 than a tile has room for, and none uses KV head 1.
TEST(AttentionWgmmaTest, SinksAndKvHeadsInAnyOrderHaveTheBitsOfMmaSync) {
  Conversation conversation(
      {.heads = 5, .kv_heads = 3, .head_dim = 32, .sinks = true, .lengths = {80}});
  conversation.set_kv_head_of({2, 0, 2, 2, 0});
  expect_bits_of_mma(conversation, {}, "map");
}

TEST(AttentionWgmmaTest, CapsAndSlopesHaveTheBitsOfMmaSync) {
  const Shape shapes[] = {
      {.heads = 4, .kv_heads = 1, .head_dim = 64, .cap = 3, .lengths = {300, 17}},
      {.heads = 4, .kv_heads = 2, .head_dim = 128, .slopes = true, .lengths = {290}},
      {.heads = 2, .head_dim = 32, .window = 40, .cap = 0.5f, .slopes = true, .lengths = {130}},
      {.heads = 3, .kv_heads = 1, .head_dim = 80, .cap = 50, .sinks = true, .lengths = {70}},
      {.heads = 3,
       .kv_heads = 1,
       .head_dim = 16,
       .slopes = true,
       .lengths = {90},
       .prefix_rows = 70},
  };
  for (const Shape& shape : shapes) {
    Conversation conversation(shape, 5);
    expect_bits_of_mma(conversation, {.chunk = 200}, "bent scores");
  }
}

// Values that are not finite reach the rows that see them and no others.
TEST(AttentionWgmmaTest, ValuesThatAreNotFiniteHaveTheEffectThatTheyHaveByMmaSync) {
  Conversation conversation({.heads = 4, .kv_heads = 1, .head_dim = 64, .lengths = {100}});
  conversation.v(0).view().row<float>(70)[3] = INFINITY;
  const auto wanted = conversation.run_all(by_mma(), {});
  for (const KernelEntry& kernel : divided()) {
    const auto found = conversation.run_all(kernel, {});
    for (int64_t row = 0; row < 100; ++row) {
      for (int64_t col = 0; col < 256; ++col) {
        const float x = found[0].at(row, col), y = wanted[0].at(row, col);
        if (std::isnan(y)) {
          EXPECT_TRUE(std::isnan(x)) << row << ", " << col;
        } else {
          EXPECT_EQ(std::bit_cast<uint32_t>(x), std::bit_cast<uint32_t>(y)) << row << ", " << col;
        }
      }
    }
  }
}

TEST(AttentionWgmmaTest, OperandsThatWgmmaCannotTakeAreLeftToMmaSync) {
  StepView step{.rows = 4096, .sequence_count = 1, .longest = 4096};
  KernelArgs args;
  args.in[0] = {nullptr, 4096, 4096, 4096, DType::kBF16};
  args.state.page_tokens = 16;
  args.step = &step;
  args.attrs =
      AttentionAttrs{.heads = 32, .kv_heads = 8, .head_dim = 128, .v_dim = 128, .scale = 0.1f};
  EXPECT_TRUE(cuda_shim::takes_wgmma(args));
  EXPECT_TRUE(cuda_shim::is_prompt(args));
  const auto refuses = [&](auto change) {
    KernelArgs changed = args;
    change(changed, changed.attrs.attention());
    return !cuda_shim::takes_wgmma(changed);
  };
  EXPECT_TRUE(refuses([](KernelArgs&, AttentionAttrs& attrs) { attrs.scale = -1; }));
  EXPECT_TRUE(
      refuses([](KernelArgs&, AttentionAttrs& attrs) { attrs.head_dim = attrs.v_dim = 136; }));
  EXPECT_TRUE(refuses([](KernelArgs& other, AttentionAttrs&) { other.in[0].stride = 4097; }));
  step.rows = step.sequence_count = 64;
  EXPECT_FALSE(cuda_shim::is_prompt(args)) << "one row of each sequence";
  step.rows = 8;
  step.sequence_count = 1;
  EXPECT_FALSE(cuda_shim::is_prompt(args)) << "each split has its own block";
}

// Every 997th float32 that is not positive, and those at the limit below which e^x is 0.
TEST(AttentionWgmmaTest, ExpBelowHasTheBitsOfExp) {
  const auto expect_same = [](uint32_t bits) {
    const auto x = std::bit_cast<float>(bits);
    ASSERT_EQ(std::bit_cast<uint32_t>(cuda_shim::exp_below(x)),
              std::bit_cast<uint32_t>(cuda_shim::exp_of(x)))
        << x;
  };
  constexpr uint32_t kMinusInfinity = 0xff800000u;
  for (uint64_t bits = 0x80000000u; bits <= kMinusInfinity; bits += 997) {
    expect_same(static_cast<uint32_t>(bits));
  }
  const auto limit = std::bit_cast<uint32_t>(-0x1.5d589ep+6f);
  for (uint32_t bits = limit - 70'000; bits < limit + 100'000; ++bits) expect_same(bits);
  expect_same(kMinusInfinity);
  expect_same(0);
  EXPECT_TRUE(std::isnan(cuda_shim::exp_below(std::nanf(""))));
}

}  // namespace
}  // namespace lockstep
