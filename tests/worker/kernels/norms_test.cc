// SPDX-License-Identifier: Apache-2.0
// The norms of .cu files have the bits of one order of sums, for any width: a row has 32 threads up
// to 256 columns, else 256. Thread t adds columns t, t + threads, ...; then the threads of a warp
// add in pairs (16 apart, then 8, 4, 2 and 1), and the warps' sums are added in order.
#include <vector>

#include "tests/worker/kernels/kernel_case.h"

namespace lockstep {
namespace {

constexpr float kEps = 1e-5f;

// The sum of add(sum, i) over a row's columns.
template <typename Add>
float sum_in_order(int64_t width, const Add& add) {
  const size_t threads = width <= 256 ? 32 : 256;
  std::vector<float> sums(threads);
  for (int64_t i = 0; i < width; ++i) {
    float& sum = sums[static_cast<size_t>(i) % threads];
    sum = add(sum, i);
  }
  float total = 0;
  for (size_t warp = 0; warp < threads; warp += 32) {
    for (size_t half = 16; half > 0; half /= 2) {
      for (size_t lane = 0; lane < half; ++lane) {
        sums[warp + lane] = sums[warp + lane] + sums[warp + lane + half];
      }
    }
    total = warp == 0 ? sums[0] : total + sums[warp];
  }
  return total;
}

struct NormTerms {
  bool centred = false;
  const float* weight = nullptr;
  const float* bias = nullptr;
};

std::vector<float> norm_in_order(const float* x, int64_t width, const NormTerms& norm) {
  const auto columns = static_cast<float>(width);
  float mean = 0;
  if (norm.centred) {
    mean = sum_in_order(width, [&](float sum, int64_t i) { return sum + x[i]; }) / columns;
  }
  const float squares = sum_in_order(
      width, [&](float sum, int64_t i) { return std::fmaf(x[i] - mean, x[i] - mean, sum); });
  const float scale = 1.0f / std::sqrt(squares / columns + kEps);
  std::vector<float> y(static_cast<size_t>(width));
  for (int64_t i = 0; i < width; ++i) {
    const float factor = norm.weight == nullptr ? 1.0f : norm.weight[i];
    const float added = norm.bias == nullptr ? 0.0f : norm.bias[i];
    const float scaled = (x[i] - mean) * scale;
    y[static_cast<size_t>(i)] = norm.centred ? std::fmaf(scaled, factor, added) : scaled * factor;
  }
  return y;
}

// One row per call of `expected`, which gives the row's norm.
template <typename Expected>
void expect_rows(const Matrix& found, const std::string& what, const Expected& expected) {
  Matrix wanted(found.view().rows, found.view().cols, found.view().dtype, found.view().stride);
  for (int64_t r = 0; r < found.view().rows; ++r) {
    const std::vector<float> row = expected(r);
    for (int64_t c = 0; c < found.view().cols; ++c) {
      reference::set_element(wanted.view(), r, c, row[static_cast<size_t>(c)]);
    }
  }
  expect_same_bits(found.view(), wanted.view(), what);
}

constexpr int64_t kWidths[] = {1,    5,    31,   32,   33,   128,  255,  256,   257,  2047,
                               2048, 2049, 4096, 5000, 8191, 8192, 8193, 12288, 20000};

class NormsTest : public testing::TestWithParam<KernelEntry> {
 protected:
  std::string what(int64_t width) const {
    return std::string(GetParam().name) + " of " + std::to_string(width);
  }
};

std::vector<KernelEntry> norm_kernels() {
  std::vector<KernelEntry> all = kernels_of(Op::kRmsNorm);
  for (const Op op : {Op::kLayerNorm, Op::kAddNorm, Op::kHeadNorm}) {
    const std::vector<KernelEntry> more = kernels_of(op);
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

TEST_P(NormsTest, AddInOneOrder) {
  const KernelEntry& kernel = GetParam();
  const bool adds = kernel.op == Op::kAddNorm, by_head = kernel.op == Op::kHeadNorm;
  const int64_t heads = by_head ? 3 : 1;
  for (const int64_t width : kWidths) {
    for (const bool plain : {true, false}) {
      const int64_t cols = heads * width;
      const NormTerms norm{.centred = kernel.op == Op::kLayerNorm || (by_head && !plain)};
      const Matrix x = Matrix::random(3, cols, 1, DType::kF32, cols + 3);
      const Matrix other = Matrix::random(3, cols, 2), weight = Matrix::random(1, cols, 3);
      const Matrix bias = Matrix::random(1, cols, 4);
      Matrix total(3, cols), out(3, cols, plain ? DType::kF32 : DType::kBF16, cols + 5);
      KernelArgs args;
      args.in[0] = x.view();
      if (adds) args.in[1] = other.view();
      if (!plain) args.in[adds ? 2 : 1] = weight.view();
      if (!plain && norm.centred) args.in[2] = bias.view();
      if (adds) args.out[0] = total.view();
      args.out[adds ? 1 : 0] = out.view();
      args.attrs = NormAttrs{.eps = kEps, .head_dim = by_head ? width : 0, .centred = norm.centred};
      run(kernel, args);
      const auto sum_of = [&](int64_t r) {
        std::vector<float> row(static_cast<size_t>(cols));
        for (int64_t c = 0; c < cols; ++c) {
          row[static_cast<size_t>(c)] = adds ? x.at(r, c) + other.at(r, c) : x.at(r, c);
        }
        return row;
      };
      if (adds) expect_rows(total, what(width) + ", sum", sum_of);
      expect_rows(out, what(width), [&](int64_t r) {
        std::vector<float> row = sum_of(r);
        for (int64_t begin = 0; begin < cols; begin += width) {
          NormTerms own = norm;
          if (!plain) own.weight = weight.view().row<float>(0) + begin;
          if (!plain && norm.centred) own.bias = bias.view().row<float>(0) + begin;
          const std::vector<float> y = norm_in_order(row.data() + begin, width, own);
          std::copy(y.begin(), y.end(), row.begin() + begin);
        }
        return row;
      });
    }
  }
}

TEST_P(NormsTest, WorkInPlace) {
  const KernelEntry& kernel = GetParam();
  const bool adds = kernel.op == Op::kAddNorm;
  for (const int64_t width : {200, 4096, 9000}) {
    const Matrix x = Matrix::random(2, width, 1), other = Matrix::random(2, width, 2);
    const Matrix both = x.copy();
    Matrix out(2, width), again(2, width);
    KernelArgs args;
    args.in[0] = x.view();
    args.in[1] = adds ? other.view() : TensorView{};
    args.attrs = NormAttrs{.eps = kEps, .head_dim = width};
    Matrix total(2, width);
    args.out[0] = adds ? total.view() : out.view();
    if (adds) args.out[1] = out.view();
    run(kernel, args);
    args.in[0] = args.out[0] = both.view();
    if (adds) args.out[1] = again.view();
    run(kernel, args);
    expect_same_bits(adds ? again.view() : both.view(), out.view(), what(width));
    if (adds) expect_same_bits(both.view(), total.view(), what(width) + ", sum");
  }
}

INSTANTIATE_TEST_SUITE_P(Cuda, NormsTest, testing::ValuesIn(norm_kernels()), kernel_name);

}  // namespace
}  // namespace lockstep
