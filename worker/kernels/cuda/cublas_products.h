// SPDX-License-Identifier: Apache-2.0
// Which of cuBLASLt's algorithms multiplies a linear's operands, chosen once and remembered.
//
// A row's bits must not depend on how many rows there are: a shape's algorithm is the first that
// cuBLASLt proposes for kModelRows without splitting K and whose check accepts 1 to kMaxCheckedRows
// rows, by powers of two; an output's products are then added in the order of one tile. Where it
// proposes none, or the weight or x is aligned to less than kOperandAlign, the plain kernel
// computes that shape for any number of rows. Where there is none for all of them, or more rows
// come than were checked, each bucket of rows (up to a power of two) has a choice of its own. All
// of that is reported, once for each shape or bucket.
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
// Of addresses and of rows in bytes, for all algorithms that use tensor cores: what is planned lies
// on more than that, but a view may begin anywhere.
inline constexpr int64_t kOperandAlign = 16;

// Everything that decides the algorithm. The number of rows is not part of it, nor anything that it
// decides: memory is planned on more than kOperandAlign, so only a rank's columns of a wider matrix
// begin or are repeated elsewhere.
struct ProductShape {
  DType type = DType::kNone;  // Of the weight and of x.
  int64_t depth = 0;
  int64_t cols = 0;
  int64_t x_stride = 0;
  int64_t out_stride = 0;
  bool out_aligned = true;  // Its rows on kOperandAlign; else on elements.
  bool has_bias = false;

  auto key() const {
    return std::tuple(type, depth, cols, x_stride, out_stride, out_aligned, has_bias);
  }
  bool operator<(const ProductShape& other) const { return key() < other.key(); }
};

// Of one device, which is the current one in all calls. Any thread; calls are made one by one.
class CublasProducts {
 public:
  explicit CublasProducts(const CublasLt& library);
  ~CublasProducts();
  CublasProducts(const CublasProducts&) = delete;
  CublasProducts& operator=(const CublasProducts&) = delete;

  // A linear; args.scratch is at least device::kProductBytes. `plain` takes what cuBLASLt does not.
  // Null, or why it could not be queued: a refusal after a choice is an error and no further one.
  const char* run(const KernelArgs& args, KernelFn plain);

 private:
  struct Product;  // A shape's objects of the library.
  struct Memory;   // What is known of a shape.
  using Algorithm = CublasLt::Algorithm;

  Memory& memory_of(const ProductShape& shape);
  void choose(Memory& memory);
  std::optional<Algorithm> for_rows(Memory& memory, int64_t rows);
  std::optional<Algorithm> first_accepted(Memory& memory, int64_t least_rows, int64_t most_rows);

  const CublasLt library_;
  void* handle_ = nullptr;
  int created_ = 0;  // The status of creating it.
  std::mutex mutex_;
  std::map<ProductShape, std::unique_ptr<Memory>> known_;
};

}  // namespace lockstep::cuda
