// SPDX-License-Identifier: Apache-2.0
// Times linears for many rows: the wgmma kernel with each number of rows per tile, and the mma.sync
// kernel. All must have the bits of the mma.sync kernel.
#include "tools/bench/cuda/variants.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "tools/bench/cuda/best_time.h"
#include "tools/bench/cuda/operands.h"
#include "worker/kernels/find.h"

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

  // The bits of the last rows, and of the guard.
  std::vector<uint32_t> out_bits(int64_t rows) const {
    const int64_t first = std::max<int64_t>(0, rows - kCheckedRows);
    std::vector<uint32_t> bits(static_cast<size_t>((rows - first + kGuardRows) * shape_.cols));
    device_.copy_out(bits.data(), out_.data() + first * shape_.cols * 4,
                     static_cast<int64_t>(bits.size() * 4));
    static_cast<void>(device_.synchronize());
    return bits;
  }
  void clear_out() { device_.clear(out_.data(), out_.bytes()); }

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

// One row of the table: a shape and a number of rows, TFLOP/s of each variant.
class VariantRow {
 public:
  VariantRow(Device& device, const Weight& weight, const Shape& shape, Operands& operands,
             int64_t rows)
      : device_(device), weight_(weight), shape_(shape), operands_(operands), rows_(rows) {}

  // False: a variant is wrong.
  bool run(const KernelEntry& mma) {
    wanted_ = result_of(mma.run);
    report(0, wanted_.has_value(), best_time(device_, [&](int64_t i) { return mma.run(args(i)); }));
    for (const KernelVariant& variant : wgmma_variants_of(device_)) {
      if (variant.weight != weight_.dtype) continue;
      const bool same = wanted_.has_value() && result_of(variant.run) == wanted_;
      report(variant.tile_rows, same,
             best_time(device_, [&](int64_t i) { return variant.run(args(i)); }));
    }
    return right_;
  }
  const std::string& line() const { return line_; }

 private:
  KernelArgs args(int64_t call) const { return operands_.args(weight_.dtype, call, rows_); }

  // Nullopt if the kernel failed, or wrote after the output.
  std::optional<std::vector<uint32_t>> result_of(KernelFn kernel) {
    operands_.clear_out();
    if (kernel(args(0)) != nullptr || device_.synchronize() != nullptr) return std::nullopt;
    std::vector<uint32_t> bits = operands_.out_bits(rows_);
    const auto guard = bits.end() - kGuardRows * shape_.cols;
    if (std::any_of(guard, bits.end(), [](uint32_t word) { return word != 0; })) {
      return std::nullopt;
    }
    return bits;
  }

  void report(int tile_rows, bool same, std::optional<double> us) {
    right_ &= same && us.has_value();
    const double flops = 2.0 * static_cast<double>(rows_ * shape_.cols * shape_.depth);
    const double tflops = us ? flops / *us / 1e6 : 0;
    std::printf(
        "{\"variant\": \"linear_%s_%s\", \"tile_rows\": %d, \"shape\": \"%s\", \"us\": %.2f, "
        "\"tflop_s\": %.1f, \"same_bits\": %s}\n",
        tile_rows == 0 ? "mma" : "wgmma", weight_.name, tile_rows, shape_text().c_str(),
        us.value_or(0), tflops, same ? "true" : "false");
    std::fflush(stdout);  // If the process is killed, earlier results are kept.
    char text[16];
    std::snprintf(text, sizeof(text), "%7.0f%s", tflops, same ? " " : "!");
    line_ += text;
  }
  std::string shape_text() const {
    return std::to_string(rows_) + " x " + std::to_string(shape_.depth) + " x " +
           std::to_string(shape_.cols);
  }

  Device& device_;
  const Weight& weight_;
  const Shape shape_;
  Operands& operands_;
  const int64_t rows_;
  std::optional<std::vector<uint32_t>> wanted_;
  std::string line_;
  bool right_ = true;
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
    VariantRow row(device, weight, shape, operands, rows);
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
  std::printf("# TFLOP/s; !: other bits than mma's. Columns, depth, rows:  mma");
  for (const KernelVariant& variant : wgmma_variants_of(device)) {
    if (variant.weight == DType::kBF16) std::printf("%8d", variant.tile_rows);
  }
  std::printf(" rows per tile\n%s", table.c_str());
  return right;
}

}  // namespace lockstep
