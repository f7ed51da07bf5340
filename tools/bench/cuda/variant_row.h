// SPDX-License-Identifier: Apache-2.0
// The variants of a product with one set of operands: each is checked and timed.
#pragma once

#include <algorithm>
#include <cstdio>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tools/bench/cuda/best_time.h"
#include "tools/bench/cuda/operands.h"

namespace lockstep {

struct VariantCase {
  const char* op;      // In the names of kernels.
  const char* weight;  // The type of the weights, as text.
  std::string shape;
  double flops;
  std::span<const KernelVariant> variants;
  // The operands of a call by its number. The output is float32, and kGuardRows more rows follow
  // it. Calls may have different weights; call 0 is compared.
  std::function<KernelArgs(int64_t call)> args;
};

// One row of the table: TFLOP/s of each variant.
class VariantRow {
 public:
  VariantRow(Device& device, const VariantCase& of) : device_(device), case_(of) {}

  // Also prints one JSON object per variant. False: a variant failed, or has not the bits of `mma`.
  bool run(const KernelEntry& mma) {
    const auto wanted = result_of(mma.run);
    report(0, wanted.has_value(), mma.run);
    for (const KernelVariant& variant : case_.variants) {
      if (variant.weight != mma.weight) continue;
      report(variant.tile_rows, wanted.has_value() && result_of(variant.run) == wanted,
             variant.run);
    }
    return right_;
  }
  const std::string& line() const { return line_; }

 private:
  // The bits of the last rows. Nullopt if the kernel failed, or wrote after the output.
  std::optional<std::vector<uint32_t>> result_of(KernelFn kernel) {
    const KernelArgs args = case_.args(0);
    const int64_t rows = args.out[0].rows, cols = args.out[0].cols;
    auto* const out = static_cast<std::byte*>(args.out[0].data);
    device_.clear(out, (rows + kGuardRows) * cols * 4);
    if (kernel(args) != nullptr || device_.synchronize() != nullptr) return std::nullopt;
    const int64_t first = std::max<int64_t>(0, rows - kCheckedRows);
    std::vector<uint32_t> bits(static_cast<size_t>((rows - first + kGuardRows) * cols));
    device_.copy_out(bits.data(), out + first * cols * 4, static_cast<int64_t>(bits.size() * 4));
    if (device_.synchronize() != nullptr) return std::nullopt;
    const auto guard = bits.end() - kGuardRows * cols;
    if (std::any_of(guard, bits.end(), [](uint32_t word) { return word != 0; })) {
      return std::nullopt;
    }
    return bits;
  }

  void report(int tile_rows, bool same, KernelFn kernel) {
    const auto us = best_time(device_, [&](int64_t i) { return kernel(case_.args(i)); });
    right_ &= same && us.has_value();
    const double tflops = us ? case_.flops / *us / 1e6 : 0;
    std::printf(
        "{\"variant\": \"%s_%s_%s\", \"tile_rows\": %d, \"shape\": \"%s\", \"us\": %.2f, "
        "\"tflop_s\": %.1f, \"same_bits\": %s}\n",
        case_.op, tile_rows == 0 ? "mma" : "wgmma", case_.weight, tile_rows, case_.shape.c_str(),
        us.value_or(0), tflops, same ? "true" : "false");
    std::fflush(stdout);  // If the process is killed, earlier results are kept.
    char text[16];
    std::snprintf(text, sizeof(text), "%7.0f%s", tflops, same ? " " : "!");
    line_ += text;
  }

  Device& device_;
  const VariantCase& case_;
  std::string line_;
  bool right_ = true;
};

// The table's head, then its lines.
inline void print_variant_table(std::span<const KernelVariant> variants, const char* operands,
                                const std::string& lines) {
  std::printf("# TFLOP/s; !: other bits than mma's. %s:  mma", operands);
  for (const KernelVariant& variant : variants) {
    if (variant.weight == DType::kBF16) std::printf("%8d", variant.tile_rows);
  }
  std::printf(" rows per tile\n%s", lines.c_str());
}

}  // namespace lockstep
