// SPDX-License-Identifier: Apache-2.0
// Weight matrices of every type for tests: random ones, slices, and packing as a loader does it.
#pragma once

#include <algorithm>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "tests/worker/kernels/kernel_case.h"

namespace lockstep {

class Weights {
 public:
  // Zeros with scale 1.
  Weights(int64_t rows, int64_t cols, DType dtype)
      : kind_(quantization(dtype)), floats_(kind_ ? 0 : rows, cols, kind_ ? DType::kF32 : dtype) {
    view_ = floats_.view();
    if (!kind_) return;
    groups_ = group_count(*kind_, cols);
    codes_.assign(static_cast<size_t>(rows * cols), 0);
    scales_.assign(static_cast<size_t>(rows * groups_), float_to_bf16(1));
    if (kind_->minimum) minima_.assign(scales_.size(), 0);
    quantized_ = std::make_unique<QuantizedRows>(quantized_from(0));
    view_ = {quantized_.get(), rows, cols, cols, dtype};
  }

  static Weights random(int64_t rows, int64_t cols, uint32_t seed, DType dtype) {
    Weights weights(rows, cols, dtype);
    if (!weights.kind_) {
      weights.floats_ = Matrix::random(rows, cols, seed, dtype);
      weights.view_ = weights.floats_.view();
      return weights;
    }
    std::mt19937 generator(kTestSeed * 1000003u + seed);
    const auto [min, max] = weights.code_range();
    std::uniform_int_distribution<int> code(min, max);
    std::normal_distribution<float> normal(0, 1);
    for (int8_t& c : weights.codes_) c = static_cast<int8_t>(code(generator));
    for (uint16_t& s : weights.scales_) s = float_to_bf16(normal(generator) / float(max));
    for (uint16_t& m : weights.minima_) m = float_to_bf16(normal(generator));
    return weights;
  }

  // The smallest and largest code of the kind.
  std::pair<int, int> code_range() const {
    return kind_->bits == 8 ? std::pair(-127, 127)
           : kind_->minimum ? std::pair(0, 15)
                            : std::pair(-8, 7);
  }

  // Rows [begin, end).
  Weights slice(int64_t begin, int64_t end) const {
    Weights part(end - begin, view_.cols, view_.dtype);
    if (!kind_) {
      for (int64_t r = begin; r < end; ++r) {
        for (int64_t k = 0; k < view_.cols; ++k) {
          reference::set_element(part.view_, r - begin, k, at(r, k));
        }
      }
      return part;
    }
    const auto copy = [&](const auto& from, auto& to, int64_t each) {
      std::copy_n(from.begin() + begin * each, to.size(), to.begin());
    };
    copy(codes_, part.codes_, view_.cols);
    copy(scales_, part.scales_, groups_);
    if (kind_->minimum) copy(minima_, part.minima_, groups_);
    return part;
  }

  // Packs in two pieces, as a loader may.
  std::vector<std::byte> pack(const KernelEntry& kernel) const {
    std::vector<std::byte> packed(static_cast<size_t>(kernel.packed_bytes(view_.rows, view_.cols)));
    std::vector<float> source;
    for (int64_t i = 0; !kind_ && i < view_.rows * view_.cols; ++i) {
      source.push_back(at(i / view_.cols, i % view_.cols));
    }
    const int64_t middle = std::min(view_.rows, kPackRows);
    for (const auto& [begin, end] :
         {std::pair(int64_t{0}, middle), std::pair(middle, view_.rows)}) {
      if (begin == end) continue;
      kernel.pack({.source = kind_ ? nullptr : source.data() + begin * view_.cols,
                   .source_stride = view_.cols,
                   .quantized = quantized_from(begin),
                   .rows = view_.rows,
                   .cols = view_.cols,
                   .row_begin = begin,
                   .row_end = end,
                   .packed = packed.data()});
    }
    return packed;
  }

  const TensorView& view() const { return view_; }
  float at(int64_t row, int64_t col) const { return reference::element(view_, row, col); }
  std::vector<int8_t>& codes() { return codes_; }
  std::vector<uint16_t>& scales() { return scales_; }
  std::vector<uint16_t>& minima() { return minima_; }

 private:
  QuantizedRows quantized_from(int64_t row) const {
    if (!kind_) return {};
    auto& self = const_cast<Weights&>(*this);
    return {self.codes_.data() + row * view_.cols, self.scales_.data() + row * groups_,
            kind_->minimum ? self.minima_.data() + row * groups_ : nullptr};
  }

  std::optional<Quantization> kind_;
  Matrix floats_;
  int64_t groups_ = 0;
  std::vector<int8_t> codes_;
  std::vector<uint16_t> scales_, minima_;
  std::unique_ptr<QuantizedRows> quantized_;
  TensorView view_;
};

// A linear with operands of the kernel's types.
struct Linear {
  Matrix x;
  Weights weight;
  Matrix bias;

  Linear(const KernelEntry& kernel, int64_t rows, int64_t cols, int64_t depth)
      : x(Matrix::random(rows, depth, 1, kernel.activation, depth + 3)),
        weight(Weights::random(cols, depth, 2, kernel.weight)),
        bias(Matrix::random(1, cols, 3)) {}

  KernelArgs args(const Matrix& out, bool with_bias = true) const {
    KernelArgs args;
    args.in[0] = x.view();
    args.in[1] = weight.view();
    if (with_bias) args.in[2] = bias.view();
    args.out[0] = out.view();
    return args;
  }
  Matrix run_kernel(const KernelEntry& kernel, int threads = 1, bool with_bias = true) const {
    Matrix out(x.view().rows, weight.view().rows, DType::kF32, weight.view().rows + 5);
    std::vector<std::byte> packed = weight.pack(kernel);
    KernelArgs a = args(out, with_bias);
    a.in[1].data = packed.data();
    run(kernel, a, threads);
    return out;
  }
};

}  // namespace lockstep
