// SPDX-License-Identifier: Apache-2.0
#include "worker/kernels/cuda/cublas/cublas_lt.h"

namespace lockstep::cuda {
namespace {

constexpr const char* kPackageFolders[] = {"nvidia/cu13/lib", "nvidia/cublas/lib"};
constexpr size_t kMinVersion = 130000, kVersionsEnd = 140000;

}  // namespace

const VendorLibrary kCublasLibrary = {.file = "libcublasLt.so.13",
                                      .package_folders = kPackageFolders,
                                      .variable = "LOCKSTEP_CUBLASLT"};

std::string cublas_version_text(size_t version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

const CublasLt* load_cublas_lt(const OpenedLibrary& library, CublasLt* loaded,
                               std::string* problem) {
  *problem = library.problem;
  if (library.handle == nullptr) return nullptr;
  CublasLt& lt = *loaded;
  const bool complete = library.find("cublasLtGetVersion", lt.version) &&
                        library.find("cublasLtCreate", lt.create) &&
                        library.find("cublasLtGetStatusString", lt.status_text) &&
                        library.find("cublasLtMatmulDescCreate", lt.create_operation) &&
                        library.find("cublasLtMatmulDescSetAttribute", lt.set_operation) &&
                        library.find("cublasLtMatmulDescDestroy", lt.destroy_operation) &&
                        library.find("cublasLtMatrixLayoutCreate", lt.create_layout) &&
                        library.find("cublasLtMatrixLayoutSetAttribute", lt.set_layout) &&
                        library.find("cublasLtMatrixLayoutDestroy", lt.destroy_layout) &&
                        library.find("cublasLtMatmulPreferenceCreate", lt.create_preference) &&
                        library.find("cublasLtMatmulPreferenceSetAttribute", lt.set_preference) &&
                        library.find("cublasLtMatmulPreferenceDestroy", lt.destroy_preference) &&
                        library.find("cublasLtMatmulAlgoGetHeuristic", lt.find_algorithms) &&
                        library.find("cublasLtMatmulAlgoCheck", lt.check) &&
                        library.find("cublasLtMatmul", lt.multiply);
  if (!complete) {
    *problem = library.path + ": it lacks a function of cuBLASLt 13";
    return nullptr;
  }
  const size_t version = lt.version();
  if (kMinVersion <= version && version < kVersionsEnd) return loaded;
  *problem = library.path + ": must be cuBLASLt 13, found " + cublas_version_text(version);
  return nullptr;
}

}  // namespace lockstep::cuda
