// SPDX-License-Identifier: Apache-2.0
// Chooses the cuBLASLt algorithm that multiplies a linear's operands, once for each shape.
//
// A row's bits must not depend on the number of rows: a shape's algorithm is the first that
// cuBLASLt proposes for kModelRows without splitting K and whose check accepts 1 to kMaxCheckedRows
// rows, by powers of two; an output's products are then added in the order of one tile. The plain
// kernel computes a shape, for any number of rows, if cuBLASLt proposes none, or the weight or x is
// aligned to less than kOperandAlign. If no algorithm accepts all, or there are more rows than were
// checked, each bucket of rows (up to a power of two) has its own choice. All of that is reported,
// once for each shape or bucket.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <tuple>

#include "worker/kernels/cuda/cublas_lt.h"
#include "worker/kernels/kernel.h"

namespace lockstep::cuda {

inline constexpr int64_t kModelRows = 64;
inline constexpr int64_t kMaxCheckedRows = 8192;
// The alignment of addresses and of rows in bytes for all algorithms that use tensor cores. Planned
// memory is aligned to more than that, but a view may begin anywhere.
inline constexpr int64_t kOperandAlign = 16;

// Everything that decides the algorithm. The number of rows does not, nor does anything that
// depends on it: planned memory is aligned to more than kOperandAlign, so only a rank's columns of
// a wider matrix have another address or stride.
struct ProductShape {
  DType type = DType::kNone;  // The type of the weight and of x.
  int64_t depth = 0;
  int64_t cols = 0;
  int64_t x_stride = 0;
  int64_t out_stride = 0;
  bool out_aligned = true;  // Rows are aligned to kOperandAlign, else to elements.
  bool has_bias = false;

  auto key() const {
    return std::tuple(type, depth, cols, x_stride, out_stride, out_aligned, has_bias);
  }
  bool operator<(const ProductShape& other) const { return key() < other.key(); }
};

// For one device, which is current in all calls. Callable from any thread; calls are serialized.
class CublasProducts {
 public:
  explicit CublasProducts(const CublasLt& library);
  ~CublasProducts();
  CublasProducts(const CublasProducts&) = delete;
  CublasProducts& operator=(const CublasProducts&) = delete;

  // Computes a linear; args.scratch has at least device::kProductBytes. `plain` computes what
  // cuBLASLt does not. Null, or why it could not be queued: a refusal after a choice is an error,
  // without another choice.
  const char* run(const KernelArgs& args, KernelFn plain);

 private:
  struct Product;  // cuBLASLt's objects for a shape.
  struct Memory;   // The choices for a shape.
  using Algorithm = CublasLt::Algorithm;

  Memory& memory_of(const ProductShape& shape);
  void choose(Memory& memory);
  std::optional<Algorithm> for_rows(Memory& memory, int64_t rows);
  std::optional<Algorithm> first_accepted(Memory& memory, int64_t min_rows, int64_t max_rows);

  const CublasLt library_;
  void* handle_ = nullptr;
  int created_ = 0;  // The status of creating the handle.
  std::mutex mutex_;
  std::map<ProductShape, std::unique_ptr<Memory>> known_;
};

}  // namespace lockstep::cuda
