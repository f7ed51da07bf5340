// SPDX-License-Identifier: Apache-2.0
#include <set>
#include <string>

#include "base/system/cpu.h"
#include "operators/schema/schema.h"
#include "tests/worker/kernels/kernel_case.h"
#include "worker/kernels/device.h"

namespace lockstep {
namespace {

bool has_kernel(Op op) {
  return schema_of(op).op != Op::kNone && schema_of(op).run_by == RunBy::kKernel;
}

// Operators that only GPUs have: the compiler fuses them from operators that every back end has.
bool of_gpus_alone(Op op) { return op == Op::kRopeAttention || op == Op::kGatedLinear; }

TEST(KernelTableTest, EveryOperatorThatComputesHasAPortableKernelAndAReference) {
  for (int i = 0; i < kOpCount; ++i) {
    const Op op = static_cast<Op>(i);
    bool found = false;
    for (const KernelEntry& entry : cpu_kernels()) {
      found = found || (entry.op == op && entry.isa == Isa::kPortable);
    }
    EXPECT_EQ(found, has_kernel(op) && !of_gpus_alone(op)) << op_name(op);
    EXPECT_EQ(reference::kernel(op) != nullptr, has_kernel(op)) << op_name(op);
  }
}

TEST(KernelTableTest, NamesAreUniqueAndIncludeTheOperatorAndTheIsa) {
  std::set<std::string> names;
  for (const KernelEntry& entry : cpu_kernels()) {
    const std::string name = entry.name;
    EXPECT_TRUE(names.insert(name).second) << name;
    EXPECT_EQ(name.find(op_name(entry.op)), 0u) << name;
    EXPECT_NE(name.find(std::string("_") + isa_name(entry.isa)), std::string::npos) << name;
    EXPECT_NE(entry.run, nullptr);
  }
}

TEST(KernelTableTest, TheBestKernelComesFirstAndNoKernelAboveTheIsaIsFound) {
  for (int i = 0; i < kIsaCount; ++i) {
    const Isa isa = static_cast<Isa>(i);
    const KernelEntry* codes =
        find_kernel(cpu_kernels(), Op::kLinear, DType::kQ8, DType::kF32, isa);
    const KernelEntry* floats =
        find_kernel(cpu_kernels(), Op::kLinear, DType::kF32, DType::kF32, isa);
    ASSERT_NE(codes, nullptr);
    ASSERT_NE(floats, nullptr);
    EXPECT_LE(codes->isa, isa);
    EXPECT_LE(floats->isa, isa);
    if (machine_runs(isa)) {
      EXPECT_EQ(codes->isa, isa);
    }
  }
}

TEST(KernelTableTest, LinearsUseTilesAndOtherOperatorsDoNot) {
  const auto isa_of = [](Op op, DType weight, DType activation) {
    return find_kernel(cpu_kernels(), op, weight, activation, Isa::kAmx)->isa;
  };
  if (!machine_runs(Isa::kAvx2)) GTEST_SKIP() << "this machine has only the portable kernels";
  EXPECT_EQ(isa_of(Op::kLinear, DType::kBF16, DType::kBF16), Isa::kAmx);
  EXPECT_EQ(isa_of(Op::kLinear, DType::kQ4M, DType::kF32), Isa::kAmx);
  EXPECT_EQ(isa_of(Op::kAttention, DType::kI8, DType::kF32), Isa::kAvx512Bf16);
  EXPECT_EQ(isa_of(Op::kRmsNorm, DType::kNone, DType::kF32), Isa::kAvx512);
}

#if defined(__x86_64__)
TEST(KernelTableTest, IntelsProcessorsMultiplyPairsOfBfloat16InFloat32) {
  const Isa fastest = __builtin_cpu_is("intel") ? Isa::kAvx512Vnni : Isa::kAvx512Bf16;
  for (const Isa isa : {Isa::kAvx512Bf16, Isa::kAmx}) {
    const auto isa_of = [isa](Op op, DType activation) {
      return find_kernel(cpu_kernels(), op, DType::kBF16, activation, isa)->isa;
    };
    EXPECT_EQ(isa_of(Op::kAttention, DType::kF32), fastest);
    EXPECT_EQ(isa_of(Op::kLinear, DType::kBF16), isa == Isa::kAmx ? isa : fastest);
    EXPECT_EQ(isa_of(Op::kExpertLinear, DType::kBF16), isa == Isa::kAmx ? isa : fastest);
  }
}
#endif

TEST(KernelTableTest, TypesWithoutAKernelAreNotFound) {
  const auto find = [](Op op, DType weight, DType activation) {
    return find_kernel(cpu_kernels(), op, weight, activation, Isa::kAmx);
  };
  EXPECT_EQ(find(Op::kLinear, DType::kF16, DType::kBF16), nullptr);
  EXPECT_EQ(find(Op::kLinear, DType::kQ8, DType::kBF16), nullptr);
  EXPECT_EQ(find(Op::kLinear, DType::kQ4, DType::kBF16), nullptr);
  EXPECT_EQ(find(Op::kLinear, DType::kQ4, DType::kA8), nullptr);
  EXPECT_EQ(find(Op::kLinear, DType::kQ8, DType::kA8P), nullptr);
  EXPECT_EQ(find(Op::kLinear, DType::kQ8C, DType::kA8), nullptr);
  EXPECT_EQ(find(Op::kLinear, DType::kF32, DType::kA8), nullptr);
  EXPECT_EQ(find(Op::kLinear, DType::kBF16, DType::kF32), nullptr);
  EXPECT_EQ(find(Op::kAttention, DType::kF16, DType::kF32), nullptr);
  EXPECT_EQ(find(Op::kAllReduce, DType::kNone, DType::kF32), nullptr);
  EXPECT_NE(find(Op::kEmbed, DType::kBF16, DType::kBF16), nullptr);
  EXPECT_NE(find(Op::kRmsNorm, DType::kF32, DType::kF32), nullptr);
  EXPECT_NE(find(Op::kRopeTable, DType::kNone, DType::kNone), nullptr);
}

TEST(KernelTableTest, AKernelThatRoundsRowsAlsoTakesRoundedRows) {
  for (const Op op : {Op::kLinear, Op::kExpertLinear}) {
    for (const DType weight : {DType::kQ8, DType::kQ4, DType::kQ4M}) {
      const auto* rounds = find_kernel(cpu_kernels(), op, weight, DType::kF32, Isa::kAvx2);
      EXPECT_EQ(find_kernel(cpu_kernels(), op, weight, rounded_rows(weight), Isa::kAvx2), rounds);
    }
  }
}

TEST(KernelTableTest, EntriesWithAWeightMatrixPackItAndOthersDoNot) {
  for (const KernelEntry& entry : cpu_kernels()) {
    const bool packs =
        entry.op == Op::kLinear || entry.op == Op::kExpertLinear || entry.op == Op::kEmbed;
    EXPECT_EQ(entry.pack != nullptr, packs) << entry.name;
    EXPECT_EQ(entry.packed_bytes != nullptr, packs) << entry.name;
  }
}

TEST(KernelTableTest, OnlyAttentionHasAPageSizeAndNoKernelLimitsItsShapes) {
  for (const KernelEntry& entry : cpu_kernels()) {
    EXPECT_EQ(entry.page_bytes != nullptr, entry.op == Op::kAttention) << entry.name;
    EXPECT_EQ(entry.fits, nullptr) << entry.name;
  }
}

TEST(KernelTableTest, EveryWeightTypeHasAnEmbeddingAndALinear) {
  for (int i = 0; i < kDTypeEnd; ++i) {
    const DType dtype = static_cast<DType>(i);
    const bool is_weight = dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF16 ||
                           quantization(dtype).has_value();
    const DType activation = dtype == DType::kBF16 ? dtype : DType::kF32;
    const auto found = [&](Op op) {
      return find_kernel(cpu_kernels(), op, dtype, activation, Isa::kPortable) != nullptr;
    };
    EXPECT_EQ(found(Op::kLinear), is_weight) << dtype_name(dtype);
    EXPECT_EQ(found(Op::kEmbed), is_weight) << dtype_name(dtype);
  }
}

TEST(KernelCostTest, ALinearMovesWholePanelsAndMultipliesEveryPair) {
  const KernelEntry* linear =
      find_kernel(cpu_kernels(), Op::kLinear, DType::kBF16, DType::kBF16, Isa::kPortable);
  KernelArgs args;
  args.in[0] = {nullptr, 3, 10, 10, DType::kBF16};
  args.in[1] = {nullptr, 20, 10, 10, DType::kBF16};
  args.out[0] = {nullptr, 3, 20, 20, DType::kF32};
  const KernelCost cost = kernel_cost(*linear, args);
  EXPECT_EQ(cost.flops, 2 * 3 * 10 * 20);
  EXPECT_EQ(cost.bytes, 2 * 3 * 10 + 2 * 10 * 32 + 4 * 3 * 20);
}

TEST(KernelCostTest, PackedWeightsOfSmallIntegersHoldTheirScales) {
  const auto bytes = [](DType weight) {
    return find_kernel(cpu_kernels(), Op::kLinear, weight, DType::kF32, Isa::kPortable)
        ->packed_bytes(64, 256);
  };
  EXPECT_EQ(bytes(DType::kQ8), 64 * 256 + 64 * 8 * 2);
  EXPECT_EQ(bytes(DType::kQ8C), 64 * 256 + 64 * 2);
  EXPECT_EQ(bytes(DType::kQ4), 64 * 128 + 64 * 8 * 2);
  EXPECT_EQ(bytes(DType::kQ4M), 64 * 128 + 64 * 8 * 4);
}

TEST(KernelCostTest, AttentionCountsOnlyTheKeysInTheWindow) {
  const KernelEntry* attention =
      find_kernel(cpu_kernels(), Op::kAttention, DType::kF32, DType::kF32, Isa::kPortable);
  StepSequence sequence = {.first_row = 0, .rows = 2, .first_position = 9, .pages = nullptr};
  StepView step;
  step.rows = 2;
  step.sequences = &sequence;
  step.sequence_count = 1;
  KernelArgs args;
  args.step = &step;
  args.attrs = AttentionAttrs{.heads = 4, .kv_heads = 2, .head_dim = 8, .v_dim = 8};
  EXPECT_EQ(kernel_cost(*attention, args).flops, 4 * (10 + 11) * 4 * 8);
  args.attrs.attention().window = 4;
  EXPECT_EQ(kernel_cost(*attention, args).flops, 4 * (4 + 4) * 4 * 8);
  EXPECT_EQ(kernel_cost(*attention, args).bytes, 2 * 5 * 2 * 8 * 4);
  args.attrs.attention().v_dim = 6;
  args.attrs.attention().values_in_keys = true;
  args.in[1] = args.in[2] = {nullptr, 2, 16, 16, DType::kF32};  // k and v are appended once.
  EXPECT_EQ(kernel_cost(*attention, args).flops, 2 * (4 + 4) * 4 * (8 + 6));
  EXPECT_EQ(kernel_cost(*attention, args).bytes, 5 * 2 * 8 * 4 + 2 * 16 * 4);
}

TEST(KvPageTest, APageHoldsKeysAndValuesOfAllItsTokens) {
  const KernelEntry& attention =
      *find_kernel(cpu_kernels(), Op::kAttention, DType::kF32, DType::kF32, Isa::kPortable);
  EXPECT_EQ(attention.page_bytes({16, 2, 64, 64, DType::kF32}), 2 * 16 * 2 * 64 * 4);
  EXPECT_EQ(attention.page_bytes({16, 1, 5, 5, DType::kBF16}) % 64, 0);
  // There is one scale per vector.
  EXPECT_EQ(attention.page_bytes({32, 2, 64, 64, DType::kI8}), 2 * 32 * 2 * (64 + 4));
  EXPECT_EQ(attention.page_bytes({16, 1, 64, 16, DType::kBF16}), 16 * (64 + 16) * 2);
  // With values in keys there is one vector and one scale.
  EXPECT_EQ(attention.page_bytes({16, 1, 576, 0, DType::kBF16}), 16 * 576 * 2);
  EXPECT_EQ(attention.page_bytes({16, 1, 576, 0, DType::kI8}), 16 * (576 + 4));
}

TEST(AttentionAttrsTest, AQuerySeesItsWindowWithinItsChunk) {
  const auto first = [](int64_t window, int64_t chunk, int64_t position) {
    return first_seen({.window = window, .chunk = chunk}, position);
  };
  EXPECT_EQ(first(0, 0, 9), 0);
  EXPECT_EQ(first(4, 0, 2), 0);
  EXPECT_EQ(first(4, 0, 3), 0);
  EXPECT_EQ(first(4, 0, 4), 1);
  EXPECT_EQ(first(0, 4, 9), 8);
  EXPECT_EQ(first(4, 8, 9), 8);
  EXPECT_EQ(first(4, 8, 15), 12);
}

}  // namespace
}  // namespace lockstep
