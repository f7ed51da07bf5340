// SPDX-License-Identifier: Apache-2.0
// Times products of experts for prompts: the wgmma kernel with each number of rows per tile, and
// the mma.sync kernel. All must have the bits of the mma.sync kernel. Times include the sorting of
// routes.
#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <vector>

#include "tools/bench/cuda/variant_row.h"
#include "tools/bench/cuda/variants.h"

namespace lockstep {
namespace {

struct ExpertWeight {
  DType dtype;
  const char* name;
};
constexpr ExpertWeight kExpertWeights[] = {
    {DType::kBF16, "bf16"}, {DType::kQ8C, "q8c"}, {DType::kQ4, "q4"}};

// `routed`: x has a row for each route, as in the down projection.
struct Experts {
  int64_t count, chosen, cols, depth;
  bool routed;

  int64_t x_rows(int64_t tokens) const { return routed ? tokens * chosen : tokens; }
  std::string text(int64_t tokens) const {
    return std::to_string(tokens) + " to " + std::to_string(chosen) + " of " +
           std::to_string(count) + " x " + std::to_string(depth) + " x " + std::to_string(cols);
  }
};
// The shapes of Mixtral-8x7B and of Qwen3-30B-A3B.
constexpr Experts kExperts[] = {{8, 2, 14336, 4096, false},
                                {8, 2, 4096, 14336, true},
                                {128, 8, 768, 2048, false},
                                {128, 8, 2048, 768, true}};
constexpr int64_t kTokenCounts[] = {512, 1024, 4096};
constexpr int64_t kMaxTokens = std::ranges::max(kTokenCounts);

// For each token `chosen` different experts: neighbours from a random one on.
std::vector<int32_t> routes_of(const Experts& experts) {
  std::vector<int32_t> ids;
  uint32_t random = 1;
  for (int64_t token = 0; token < kMaxTokens; ++token) {
    random = random * 1664525 + 1013904223;
    for (int64_t i = 0; i < experts.chosen; ++i) {
      ids.push_back(static_cast<int32_t>(((random >> 16) + i) % experts.count));
    }
  }
  return ids;
}

// For any number of tokens up to the largest. Matrices are larger than a GPU's cache.
class ExpertOperands {
 public:
  ExpertOperands(Device& device, const KernelEntry& kernel, const Experts& experts)
      : device_(device),
        experts_(experts),
        x_(device, experts.x_rows(kMaxTokens) * experts.depth * 2),
        ids_(device, kMaxTokens * experts.chosen * 4),
        weights_(device, experts.count * kernel.packed_bytes(experts.cols, experts.depth)),
        out_(device, (kMaxTokens * experts.chosen + kGuardRows) * experts.cols * 4) {}

  bool fill(const KernelEntry& kernel) {
    const KernelArgs largest = args(kernel.weight, kMaxTokens);
    scratch_ = DeviceMemory(device_, scratch_bytes(kernel, largest, 1));
    for (const DeviceMemory* memory : {&x_, &ids_, &weights_, &out_}) {
      if (memory->data() == nullptr) return false;
    }
    if (scratch_.data() == nullptr) return false;
    const std::vector<int32_t> ids = routes_of(experts_);
    device_.copy_in(ids_.data(), ids.data(), ids_.bytes());
    return fill_with_pattern(device_, std::to_array({&x_, &weights_}));
  }

  KernelArgs args(DType weight, int64_t tokens) const {
    const int64_t routes = tokens * experts_.chosen, depth = experts_.depth, cols = experts_.cols;
    KernelArgs args;
    args.in[0] = {x_.data(), experts_.x_rows(tokens), depth, depth, DType::kBF16};
    args.in[1] = {ids_.data(), routes, 1, 1, DType::kI32};
    args.in[2] = {weights_.data(), experts_.count * cols, depth, depth, weight};
    args.out[0] = {out_.data(), routes, cols, cols, DType::kF32};
    args.attrs = ExpertAttrs{.experts = experts_.count};
    args.scratch = scratch_.data();
    args.queue = device_.queue();
    return args;
  }

 private:
  Device& device_;
  const Experts experts_;
  const DeviceMemory x_, ids_, weights_, out_;
  DeviceMemory scratch_;
};

// Adds lines to the table. False: a variant is wrong.
bool run_experts(Device& device, const ExpertWeight& weight, const Experts& experts,
                 std::string* table) {
  const std::string ending = std::string(weight.name) + "_cuda";
  const auto* mma = kernel_named(device, "expert_linear_mma_" + ending);
  const auto* wgmma = kernel_named(device, "expert_linear_wgmma_" + ending);
  if (mma == nullptr || wgmma == nullptr) return true;  // This GPU has no variants.
  ExpertOperands operands(device, *wgmma, experts);
  if (!operands.fill(*wgmma)) {
    std::fprintf(stderr, "cuda_bench: the GPU has too little memory\n");
    return false;
  }
  bool right = true;
  for (const int64_t tokens : kTokenCounts) {
    const int64_t products = tokens * experts.chosen * experts.cols * experts.depth;
    const VariantCase one{
        .op = "expert_linear",
        .weight = weight.name,
        .shape = experts.text(tokens),
        .flops = 2.0 * static_cast<double>(products),
        .variants = expert_variants_of(device),
        .args = [&, tokens](int64_t) { return operands.args(weight.dtype, tokens); }};
    VariantRow row(device, one);
    right &= row.run(*mma);
    char head[64];
    std::snprintf(head, sizeof(head), "%-5s %-36s", weight.name, one.shape.c_str());
    *table += head + row.line() + "\n";
  }
  return right;
}

}  // namespace

bool run_expert_variants(Device& device) {
  bool right = true;
  std::string table;
  for (const ExpertWeight& weight : kExpertWeights) {
    for (const Experts& experts : kExperts) right &= run_experts(device, weight, experts, &table);
  }
  print_variant_table(expert_variants_of(device), "Tokens to experts of all, depth, columns",
                      table);
  return right;
}

}  // namespace lockstep
