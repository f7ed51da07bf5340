// SPDX-License-Identifier: Apache-2.0
// Chooses the cuBLASLt algorithms that multiply a linear's operands in the fast class. Each shape
// has one algorithm per bucket of rows. cuBLASLt proposes algorithms for the bucket's last number
// of rows; those that split K are left out. The first of the others that cuBLASLt also accepts for
// the bucket's first number is chosen. The plain kernel computes buckets without an algorithm, and
// operands that are aligned to less than kOperandAlign; this is reported once for each shape or
// bucket.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <tuple>

#include "operators/limits.h"
#include "worker/kernels/cuda/cublas/cublas_lt.h"
#include "worker/kernels/kernel.h"

namespace lockstep::cuda {

// The last numbers of rows of the buckets. A proof at load tries all columns in every bucket except
// the last bucket, which is for steps of very many rows.
inline constexpr int64_t kBucketEnds[] = {1, 8, 64, 8192, kMaxStepRows};
// The alignment of addresses and rows, in bytes, that suffices for all algorithms on tensor cores.
// Planned memory is aligned to more than that, but a view may begin anywhere.
inline constexpr int64_t kOperandAlign = 16;

// All that decides the algorithm, except the number of rows. Planned memory is aligned to more than
// kOperandAlign. So only a view, which is a rank's columns of a wider matrix, can have another
// alignment or stride.
struct ProductShape {
  DType type = DType::kNone;  // The type of the weight and of x.
  int64_t depth = 0;
  int64_t cols = 0;
  int64_t x_stride = 0;
  int64_t out_stride = 0;
  bool out_aligned = true;  // False: output rows are aligned only to their elements.
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
  // cuBLASLt does not. Null, or why the work could not be queued. If the library refuses the chosen
  // algorithm, that is an error: no other algorithm is tried.
  const char* run(const KernelArgs& args, KernelFn plain);

 private:
  struct Product;  // cuBLASLt's objects for a shape.
  struct Memory;   // The choices for a shape.
  using Algorithm = CublasLt::Algorithm;

  Memory& memory_of(const ProductShape& shape);
  std::optional<Algorithm> for_rows(Memory& memory, int64_t rows);

  const CublasLt library_;
  void* handle_ = nullptr;
  int created_ = 0;  // The status of creating the handle.
  std::mutex mutex_;
  std::map<ProductShape, std::unique_ptr<Memory>> known_;
};

}  // namespace lockstep::cuda
