// SPDX-License-Identifier: Apache-2.0
// linear by cuBLASLt. To it matrices are columns: out^T [N, rows] = weight [N, K] * x^T [K, rows].
// A row's bits must not depend on how many rows there are, so the algorithm of a weight is chosen
// once, for kModelRows of them, without splitting K, and then used for any number: an output's
// products are then added in the order of one tile. Where cuBLASLt has no such algorithm, or
// refuses a call, the plain kernel computes it; which of the two is a matter of shapes alone.
#include <cublasLt.h>
#include <cuda_runtime.h>

#include <map>
#include <mutex>
#include <tuple>

#include "worker/kernels/kernel.h"

namespace lockstep::cuda {

const char* linear_f32(const KernelArgs& args);
const char* linear_bf16(const KernelArgs& args);
const char* linear_f16(const KernelArgs& args);

namespace {

constexpr uint64_t kModelRows = 64;

cublasLtHandle_t handle() {
  static const cublasLtHandle_t made = [] {
    cublasLtHandle_t created = nullptr;
    return cublasLtCreate(&created) == CUBLAS_STATUS_SUCCESS ? created : nullptr;
  }();
  return made;
}

// The largest power of two that divides an address, up to what cuBLASLt distinguishes.
uint32_t alignment_of(const void* address) {
  const auto bits = reinterpret_cast<uintptr_t>(address) | 256;
  return static_cast<uint32_t>(bits & (~bits + 1));
}

// Everything that decides the algorithm; the number of rows is not part of it.
struct Shape {
  cudaDataType type;
  int64_t depth;
  int64_t cols;
  int64_t x_stride;
  int64_t out_stride;
  uint32_t weight_alignment;
  uint32_t x_alignment;
  uint32_t out_alignment;
  bool has_bias;
  int device;

  auto key() const {
    return std::tuple(static_cast<int>(type), depth, cols, x_stride, out_stride, weight_alignment,
                      x_alignment, out_alignment, has_bias, device);
  }
  bool operator<(const Shape& other) const { return key() < other.key(); }
};

// Descriptions of one product, destroyed at the end.
struct Product {
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t weight = nullptr, x = nullptr, out = nullptr;
  bool ready = false;

  Product(const Shape& shape, uint64_t rows, const void* bias) {
    const auto cols = static_cast<uint64_t>(shape.cols), depth = static_cast<uint64_t>(shape.depth);
    const cublasOperation_t transposed = CUBLAS_OP_T;
    ready = ok(cublasLtMatmulDescCreate(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F)) &&
            set(CUBLASLT_MATMUL_DESC_TRANSA, transposed) &&
            ok(cublasLtMatrixLayoutCreate(&weight, shape.type, depth, cols, shape.depth)) &&
            ok(cublasLtMatrixLayoutCreate(&x, shape.type, depth, rows, shape.x_stride)) &&
            ok(cublasLtMatrixLayoutCreate(&out, CUDA_R_32F, cols, rows, shape.out_stride));
    if (!ready || bias == nullptr) return;
    const cublasLtEpilogue_t adds_bias = CUBLASLT_EPILOGUE_BIAS;
    ready = set(CUBLASLT_MATMUL_DESC_EPILOGUE, adds_bias) &&
            set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  }
  ~Product() {
    if (out != nullptr) cublasLtMatrixLayoutDestroy(out);
    if (x != nullptr) cublasLtMatrixLayoutDestroy(x);
    if (weight != nullptr) cublasLtMatrixLayoutDestroy(weight);
    if (operation != nullptr) cublasLtMatmulDescDestroy(operation);
  }
  Product(const Product&) = delete;
  Product& operator=(const Product&) = delete;

  static bool ok(cublasStatus_t status) { return status == CUBLAS_STATUS_SUCCESS; }

 private:
  template <typename T>
  bool set(cublasLtMatmulDescAttributes_t attribute, const T& value) {
    return ok(cublasLtMatmulDescSetAttribute(operation, attribute, &value, sizeof(value)));
  }
};

// cuBLASLt's first choice; `found` is false where it has none.
struct Algorithm {
  cublasLtMatmulAlgo_t how{};
  bool found = false;
};

Algorithm choose(const Shape& shape, const void* bias) {
  Algorithm algorithm;
  const Product product(shape, kModelRows, bias);
  cublasLtMatmulPreference_t wanted = nullptr;
  if (!product.ready || !Product::ok(cublasLtMatmulPreferenceCreate(&wanted))) return algorithm;
  const auto want = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    return Product::ok(
        cublasLtMatmulPreferenceSetAttribute(wanted, attribute, &value, sizeof(value)));
  };
  const uint32_t no_split = CUBLASLT_REDUCTION_SCHEME_NONE;
  const size_t no_workspace = 0;
  cublasLtMatmulHeuristicResult_t result{};
  int count = 0;
  algorithm.found = want(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, no_workspace) &&
                    want(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, no_split) &&
                    want(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, shape.weight_alignment) &&
                    want(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, shape.x_alignment) &&
                    want(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, shape.out_alignment) &&
                    want(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, shape.out_alignment) &&
                    Product::ok(cublasLtMatmulAlgoGetHeuristic(
                        handle(), product.operation, product.weight, product.x, product.out,
                        product.out, wanted, 1, &result, &count)) &&
                    count == 1 && Product::ok(result.state);
  algorithm.how = result.algo;
  cublasLtMatmulPreferenceDestroy(wanted);
  return algorithm;
}

// Chosen at a shape's first call; there are as many as a program has different linears.
Algorithm algorithm_of(const Shape& shape, const void* bias) {
  static std::mutex mutex;
  static std::map<Shape, Algorithm> known;
  const std::lock_guard lock(mutex);
  const auto at = known.find(shape);
  if (at != known.end()) return at->second;
  return known.emplace(shape, choose(shape, bias)).first->second;
}

bool run(const KernelArgs& args, cudaDataType type) {
  const TensorView &x = args.in[0], &out = args.out[0];
  if (x.cols == 0 || handle() == nullptr) return false;
  Shape shape{.type = type,
              .depth = x.cols,
              .cols = out.cols,
              .x_stride = x.stride,
              .out_stride = out.stride,
              .weight_alignment = alignment_of(args.in[1].data),
              .x_alignment = alignment_of(x.data),
              .out_alignment = alignment_of(out.data),
              .has_bias = args.in[2].data != nullptr,
              .device = 0};
  if (cudaGetDevice(&shape.device) != cudaSuccess) return false;
  const Algorithm algorithm = algorithm_of(shape, args.in[2].data);
  if (!algorithm.found) return false;
  const Product product(shape, static_cast<uint64_t>(x.rows), args.in[2].data);
  const float one = 1, zero = 0;
  return product.ready &&
         Product::ok(cublasLtMatmul(handle(), product.operation, &one, args.in[1].data,
                                    product.weight, x.data, product.x, &zero, out.data, product.out,
                                    out.data, product.out, &algorithm.how, nullptr, 0,
                                    static_cast<cudaStream_t>(args.queue)));
}

const char* linear(const KernelArgs& args, cudaDataType type, KernelFn plain) {
  if (args.in[0].rows <= 0 || args.out[0].cols <= 0) return nullptr;
  return run(args, type) ? nullptr : plain(args);
}

}  // namespace

const char* linear_cublas_f32(const KernelArgs& args) {
  return linear(args, CUDA_R_32F, linear_f32);
}
const char* linear_cublas_bf16(const KernelArgs& args) {
  return linear(args, CUDA_R_16BF, linear_bf16);
}
const char* linear_cublas_f16(const KernelArgs& args) {
  return linear(args, CUDA_R_16F, linear_f16);
}

}  // namespace lockstep::cuda
