// SPDX-License-Identifier: Apache-2.0
// cuBLASLt, opened when it is needed: nothing is linked. The functions that we use are declared
// here as in CUDA 13, so that builds and tests need no toolkit. In a build with a toolkit,
// linear_cublas.cc compares the constants with its header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/system/vendor_library.h"

namespace lockstep::cuda {

// Results are cuBLAS's own, 0 is success. Operations, layouts and preferences are cuBLASLt's
// objects.
struct CublasLt {
  struct Algorithm {
    uint64_t data[8] = {};
  };
  struct Finding {
    Algorithm algorithm;
    size_t workspace_bytes = 0;
    int state = 0;
    float waves = 0;
    int reserved[4] = {};
  };

  size_t (*version)() = nullptr;  // 130100 is 13.1.0.
  int (*create)(void** handle) = nullptr;
  const char* (*status_text)(int status) = nullptr;
  int (*create_operation)(void** operation, int compute, int scale_type) = nullptr;
  int (*set_operation)(void* operation, int attribute, const void* value, size_t bytes) = nullptr;
  int (*destroy_operation)(void* operation) = nullptr;
  int (*create_layout)(void** layout, int type, uint64_t rows, uint64_t cols,
                       int64_t stride) = nullptr;
  int (*set_layout)(void* layout, int attribute, const void* value, size_t bytes) = nullptr;
  int (*destroy_layout)(void* layout) = nullptr;
  int (*create_preference)(void** preference) = nullptr;
  int (*set_preference)(void* preference, int attribute, const void* value, size_t bytes) = nullptr;
  int (*destroy_preference)(void* preference) = nullptr;
  int (*find_algorithms)(void* handle, void* operation, void* a, void* b, void* c, void* d,
                         void* preference, int wanted, Finding* found, int* count) = nullptr;
  int (*check)(void* handle, void* operation, void* a, void* b, void* c, void* d,
               const Algorithm* algorithm, Finding* finding) = nullptr;
  int (*multiply)(void* handle, void* operation, const void* alpha, const void* a, void* a_layout,
                  const void* b, void* b_layout, const void* beta, const void* c, void* c_layout,
                  void* d, void* d_layout, const Algorithm* algorithm, void* workspace,
                  size_t workspace_bytes, void* queue) = nullptr;
};

// cuBLASLt's constants.
namespace cublas {
inline constexpr int kF32 = 0, kF16 = 2, kBF16 = 14;            // cudaDataType
inline constexpr int kCompute32F = 68;                          // cublasComputeType_t
inline constexpr int kTransposed = 1;                           // cublasOperation_t
inline constexpr int kEpilogueBias = 4;                         // cublasLtEpilogue_t
inline constexpr uint32_t kNoSplit = 0;                         // cublasLtReductionScheme_t
inline constexpr int kLayoutCols = 3;                           // cublasLtMatrixLayoutAttribute_t
inline constexpr int kTransA = 3, kEpilogue = 7, kBias = 8;     // cublasLtMatmulDescAttributes_t
inline constexpr int kMaxWorkspace = 1, kReductionSchemes = 3;  // cublasLtMatmulPreference...
inline constexpr int kMinAlignmentA = 5, kMinAlignmentB = 6;
inline constexpr int kMinAlignmentC = 7, kMinAlignmentD = 8;
}  // namespace cublas

extern const VendorLibrary kCublasLibrary;

// Null: it is missing or has another version; `problem` says so in one line.
const CublasLt* load_cublas_lt(const OpenedLibrary& library, CublasLt* loaded,
                               std::string* problem);

// "13.1.0".
std::string cublas_version_text(size_t version);

}  // namespace lockstep::cuda
