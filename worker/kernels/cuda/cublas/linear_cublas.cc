// SPDX-License-Identifier: Apache-2.0
// linear by cuBLASLt if it is found, else by the plain kernel, for the fast class.
// Each GPU has its own choices.
#include <cublasLt.h>
#include <cuda_runtime.h>

#include <array>
#include <memory>
#include <mutex>

#include "worker/kernels/cuda/cublas/cublas_products.h"
#include "worker/kernels/kernel.h"
#include "worker/kernels/report.h"

namespace lockstep::cuda {

const char* linear_f32(const KernelArgs& args);
const char* linear_bf16(const KernelArgs& args);
const char* linear_f16(const KernelArgs& args);

// Opens the library at the first call, on any thread. Null: it was not found, which was reported.
const CublasLt* cublas_lt();

namespace {

// The constants of cublas_lt.h must equal the library's header.
static_assert(cublas::kF32 == CUDA_R_32F && cublas::kF16 == CUDA_R_16F);
static_assert(cublas::kBF16 == CUDA_R_16BF && cublas::kCompute32F == CUBLAS_COMPUTE_32F);
static_assert(cublas::kTransposed == CUBLAS_OP_T);
static_assert(cublas::kEpilogueBias == CUBLASLT_EPILOGUE_BIAS);
static_assert(cublas::kNoSplit == CUBLASLT_REDUCTION_SCHEME_NONE);
static_assert(cublas::kLayoutCols == CUBLASLT_MATRIX_LAYOUT_COLS);
static_assert(cublas::kTransA == CUBLASLT_MATMUL_DESC_TRANSA);
static_assert(cublas::kEpilogue == CUBLASLT_MATMUL_DESC_EPILOGUE);
static_assert(cublas::kBias == CUBLASLT_MATMUL_DESC_BIAS_POINTER);
static_assert(cublas::kMaxWorkspace == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
static_assert(cublas::kReductionSchemes == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
static_assert(cublas::kMinAlignmentA == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
static_assert(cublas::kMinAlignmentB == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES);
static_assert(cublas::kMinAlignmentC == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES);
static_assert(cublas::kMinAlignmentD == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
static_assert(sizeof(CublasLt::Algorithm) == sizeof(cublasLtMatmulAlgo_t));
static_assert(sizeof(CublasLt::Finding) == sizeof(cublasLtMatmulHeuristicResult_t));
static_assert(offsetof(CublasLt::Finding, workspace_bytes) ==
              offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize));
static_assert(offsetof(CublasLt::Finding, state) ==
              offsetof(cublasLtMatmulHeuristicResult_t, state));

// Null: no library.
CublasProducts* products(int device) {
  constexpr size_t kMaxDevices = 64;
  static std::mutex mutex;
  static std::array<std::unique_ptr<CublasProducts>, kMaxDevices> made;
  const CublasLt* library = cublas_lt();
  if (library == nullptr || device < 0 || device >= static_cast<int>(kMaxDevices)) return nullptr;
  const std::lock_guard lock(mutex);
  std::unique_ptr<CublasProducts>& own = made[static_cast<size_t>(device)];
  if (own == nullptr) own = std::make_unique<CublasProducts>(*library);
  return own.get();
}

const char* linear(const KernelArgs& args, KernelFn plain) {
  int device = 0;
  if (const cudaError_t error = cudaGetDevice(&device); error != cudaSuccess) {
    return cudaGetErrorString(error);
  }
  CublasProducts* const own = products(device);
  return own == nullptr ? plain(args) : own->run(args, plain);
}

}  // namespace

const CublasLt* cublas_lt() {
  static CublasLt loaded;
  static const CublasLt* const library = [] {
    std::string problem;
    const OpenedLibrary opened = open_library(kCublasLibrary);
    const CublasLt* found = load_cublas_lt(opened, &loaded, &problem);
    if (found == nullptr) {
      report("no cuBLASLt (" + problem + "): --fast has only kernels of our own" +
             (opened.switched_off
                  ? ""
                  : "; pip install nvidia-cublas, or name a file with LOCKSTEP_CUBLASLT"));
    }
    return found;
  }();
  return library;
}

const char* linear_cublas_f32(const KernelArgs& args) { return linear(args, linear_f32); }
const char* linear_cublas_bf16(const KernelArgs& args) { return linear(args, linear_bf16); }
const char* linear_cublas_f16(const KernelArgs& args) { return linear(args, linear_f16); }

}  // namespace lockstep::cuda
