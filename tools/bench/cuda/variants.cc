// SPDX-License-Identifier: Apache-2.0
// Times linears for many rows: the wgmma kernel with each number of rows per tile, and the mma.sync
// kernel. All must have the bits of the mma.sync kernel.
#include "tools/bench/cuda/variants.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>

#include "tools/bench/cuda/variant_row.h"

namespace lockstep {

namespace {

constexpr int64_t kRotatedBytes = int64_t{256} << 20;  // More than a GPU's cache.

struct Weight {
  DType dtype;
  const char* name;
};
constexpr Weight kWeights[] = {
    {DType::kBF16, "bf16"}, {DType::kF16, "f16"}, {DType::kQ8, "q8"}, {DType::kQ4, "q4"}};
struct Shape {
  int64_t cols;
  int64_t depth;
};
constexpr Shape kShapes[] = {{6144, 4096}, {4096, 4096}, {28672, 4096}, {4096, 14336}};
constexpr int64_t kRowCounts[] = {65, 128, 256, 512, 1024, 2048, 4096};

// The operands of a shape, for any number of rows up to the largest.
class Operands {
 public:
  Operands(Device& device, const KernelEntry& kernel, const Shape& shape)
      : device_(device),
        shape_(shape),
        packed_bytes_(kernel.packed_bytes(shape.cols, shape.depth)),
        copies_(std::max<int64_t>(1, kRotatedBytes / packed_bytes_)),
        x_type_(kernel.weight == DType::kF16 ? DType::kF16 : DType::kBF16),
        x_(device, std::ranges::max(kRowCounts) * shape.depth * 2),
        weights_(device, packed_bytes_ * copies_),
        out_(device, (std::ranges::max(kRowCounts) + kGuardRows) * shape.cols * 4),
        scratch_(device, scratch_bytes(kernel, largest(shape), 1)) {}

  bool fill() {
    if (x_.data() == nullptr || weights_.data() == nullptr || out_.data() == nullptr ||
        scratch_.data() == nullptr) {
      return false;
    }
    return fill_with_pattern(device_, std::to_array({&x_, &weights_}));
  }

  KernelArgs args(DType weight, int64_t call, int64_t rows) const {
    KernelArgs args;
    args.in[0] = {x_.data(), rows, shape_.depth, shape_.depth, x_type_};
    args.in[1] = {weights_.data() + call % copies_ * packed_bytes_, shape_.cols, shape_.depth,
                  shape_.depth, weight};
    args.out[0] = {out_.data(), rows, shape_.cols, shape_.cols, DType::kF32};
    args.scratch = scratch_.data();
    args.queue = device_.queue();
    return args;
  }

 private:
  static KernelArgs largest(const Shape& shape) {
    KernelArgs args;
    args.in[0] = {nullptr, std::ranges::max(kRowCounts), shape.depth, shape.depth, DType::kBF16};
    return args;
  }

  Device& device_;
  const Shape shape_;
  const int64_t packed_bytes_, copies_;
  const DType x_type_;
  const DeviceMemory x_, weights_, out_, scratch_;
};

std::string head_of(const Weight& weight, const Shape& shape, int64_t rows) {
  char head[64];
  std::snprintf(head, sizeof(head), "%-5s %6lld x %-6lld %5lld ", weight.name,
                static_cast<long long>(shape.cols), static_cast<long long>(shape.depth),
                static_cast<long long>(rows));
  return head;
}

// Adds lines to the table. False: a variant is wrong.
bool run_shape(Device& device, const Weight& weight, const Shape& shape, std::string* table) {
  const auto* mma = kernel_named(device, std::string("linear_mma_") + weight.name + "_cuda");
  const auto* wgmma = kernel_named(device, std::string("linear_wgmma_") + weight.name + "_cuda");
  if (mma == nullptr || wgmma == nullptr) return true;  // This GPU has no variants.
  Operands operands(device, *wgmma, shape);
  if (!operands.fill()) {
    std::fprintf(stderr, "cuda_bench: the GPU has too little memory\n");
    return false;
  }
  bool right = true;
  for (const int64_t rows : kRowCounts) {
    const VariantCase one{
        .op = "linear",
        .weight = weight.name,
        .shape = std::to_string(rows) + " x " + std::to_string(shape.depth) + " x " +
                 std::to_string(shape.cols),
        .flops = 2.0 * static_cast<double>(rows * shape.cols * shape.depth),
        .variants = wgmma_variants_of(device),
        .args = [&, rows](int64_t call) { return operands.args(weight.dtype, call, rows); }};
    VariantRow row(device, one);
    right &= row.run(*mma);
    *table += head_of(weight, shape, rows) + row.line() + "\n";
  }
  return right;
}

}  // namespace

bool run_variants(Device& device) {
  bool right = true;
  std::string table;
  for (const Weight& weight : kWeights) {
    for (const Shape& shape : kShapes) right &= run_shape(device, weight, shape, &table);
  }
  print_variant_table(wgmma_variants_of(device), "Columns, depth, rows", table);
  return right;
}

}  // namespace lockstep
