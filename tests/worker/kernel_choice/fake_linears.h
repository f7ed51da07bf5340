// SPDX-License-Identifier: Apache-2.0
// Linears in plain C++ over bfloat16, for tests of the proof. Some are correct; the others have
// faults that kernels of a GPU may have. Those that run advance a fake clock by a fixed time.
#pragma once

#include <vector>

#include "base/numbers/float16.h"
#include "worker/backend.h"
#include "worker/kernels/pack_rows.h"

namespace lockstep::testing {

inline int64_t fake_ns = 0;
inline int64_t fake_now() { return fake_ns; }

// Computes columns [0, cols) of the output. `keeps` selects the elements of K that are added.
// `backwards` gets the number of rows; if it returns true, K is summed from its end.
template <typename Keeps, typename Backwards>
void fake_product(const KernelArgs& args, int64_t cols, const Keeps& keeps,
                  const Backwards& backwards) {
  const TensorView &x = args.in[0], &weight = args.in[1], &bias = args.in[2], &out = args.out[0];
  for (int64_t row = 0; row < out.rows; ++row) {
    for (int64_t col = 0; col < cols; ++col) {
      float sum = 0;
      for (int64_t i = 0; i < x.cols; ++i) {
        const int64_t k = backwards(out.rows) ? x.cols - 1 - i : i;
        if (!keeps(col, k, x.cols)) continue;
        sum += bf16_to_float(x.row<uint16_t>(row)[k]) * bf16_to_float(weight.row<uint16_t>(col)[k]);
      }
      out.row<float>(row)[col] = bias.data == nullptr ? sum : sum + bias.row<float>(0)[col];
    }
  }
}
inline bool keeps_all(int64_t, int64_t, int64_t) { return true; }

inline const char* fake_plain(const KernelArgs& args) {
  fake_ns += 50'000;
  fake_product(args, args.out[0].cols, keeps_all, [](int64_t) { return false; });
  return nullptr;
}
// Right, but sums in another order.
inline const char* fake_right(const KernelArgs& args) {
  fake_ns += 10'000;
  fake_product(args, args.out[0].cols, keeps_all, [](int64_t) { return true; });
  return nullptr;
}
inline const char* fake_slow(const KernelArgs& args) {
  fake_ns += 1'000'000;
  return fake_right(args);
}
// Leaves out one product of one column.
inline const char* fake_wrong_column(const KernelArgs& args) {
  fake_ns += 10'000;
  fake_product(
      args, args.out[0].cols,
      [](int64_t col, int64_t k, int64_t depth) { return col != 3 || k != depth - 1; },
      [](int64_t) { return true; });
  return nullptr;
}
// Leaves the last column unwritten.
inline const char* fake_unwritten(const KernelArgs& args) {
  fake_ns += 10'000;
  fake_product(args, args.out[0].cols - 1, keeps_all, [](int64_t) { return true; });
  return nullptr;
}
// Right, but a row's bits depend on the number of rows.
inline const char* fake_by_rows(const KernelArgs& args) {
  fake_ns += 10'000;
  fake_product(args, args.out[0].cols, keeps_all, [](int64_t rows) { return rows > 8; });
  return nullptr;
}
inline const char* fake_refusing(const KernelArgs&) { return "no kernel image is available"; }

// A gated_linear made from one of these linears; its function is a multiplication by a factor.
template <KernelFn linear>
const char* fake_gated(const KernelArgs& args) {
  const TensorView& out = args.out[0];
  std::vector<float> sums(static_cast<size_t>(2 * out.rows * out.cols));
  KernelArgs multiplying = args;
  multiplying.out[0] = {sums.data(), out.rows, 2 * out.cols, 2 * out.cols, DType::kF32};
  if (const char* failure = linear(multiplying); failure != nullptr) return failure;
  for (int64_t row = 0; row < out.rows; ++row) {
    for (int64_t col = 0; col < out.cols; ++col) {
      const float* const pair = multiplying.out[0].row<float>(row) + 2 * col;
      out.row<float>(row)[col] = pair[0] * args.attrs.map().factor * pair[1];
    }
  }
  return nullptr;
}

inline KernelEntry fake_entry(const char* name, KernelFn run) {
  return {.op = Op::kLinear,
          .weight = DType::kBF16,
          .activation = DType::kBF16,
          .run = run,
          .name = name,
          .pack = pack_plain_rows<DType::kBF16>,
          .packed_bytes = plain_row_bytes<DType::kBF16>};
}

inline KernelEntry fake_gated_entry(const char* name, KernelFn run) {
  KernelEntry entry = fake_entry(name, run);
  entry.op = Op::kGatedLinear;
  return entry;
}

// The CPU as a device whose kernels are proven: `kernels`, then the plain one.
struct FakeBackend {
  explicit FakeBackend(std::vector<KernelEntry> kernels, const char* numeric_class = "fake.v1")
      : table(std::move(kernels)) {
    table.push_back(fake_entry("plain", fake_plain));
    backend.device = host_device();
    backend.kernels = table;
    backend.numeric_class = numeric_class;
    backend.proof_ms = 20'000;
  }
  std::vector<KernelEntry> table;
  Backend backend;
};

}  // namespace lockstep::testing
