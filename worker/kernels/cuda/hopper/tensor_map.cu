// SPDX-License-Identifier: Apache-2.0
#include "worker/kernels/cuda/hopper/tensor_map.h"

namespace lockstep::LOCKSTEP_TARGET {
#ifdef __CUDACC__
namespace {

// The driver's function, found through the runtime: nothing is linked with the driver.
using Encode = decltype(&cuTensorMapEncodeTiled);
Encode encode_function() {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult status{};
  const cudaError_t error = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found,
                                                             12000, cudaEnableDefault, &status);
  const bool there = error == cudaSuccess && status == cudaDriverEntryPointSuccess;
  return there ? reinterpret_cast<Encode>(found) : nullptr;
}

}  // namespace

const char* make_map(const TiledMatrix& matrix, TensorMap* map) {
  static const Encode encode = encode_function();
  if (encode == nullptr) return "the driver has no cuTensorMapEncodeTiled; update it";
  const bool numbers = matrix.element_bytes == 2;
  const cuuint64_t sizes[] = {static_cast<cuuint64_t>(matrix.cols),
                              static_cast<cuuint64_t>(matrix.rows)};
  const cuuint64_t strides[] = {static_cast<cuuint64_t>(matrix.row_bytes)};
  const cuuint32_t tile[] = {static_cast<cuuint32_t>(matrix.tile_cols),
                             static_cast<cuuint32_t>(matrix.tile_rows)};
  const cuuint32_t steps[] = {1, 1};
  const CUresult result = encode(
      map, numbers ? CU_TENSOR_MAP_DATA_TYPE_UINT16 : CU_TENSOR_MAP_DATA_TYPE_UINT64, 2,
      const_cast<void*>(matrix.data), sizes, strides, tile, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
      numbers ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_NONE,
      CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return result == CUDA_SUCCESS ? nullptr : "the driver refused a tensor map";
}
#else
const char* make_map(const TiledMatrix& matrix, TensorMap* map) {
  const auto begin = reinterpret_cast<uintptr_t>(matrix.data);
  if (begin % 16 != 0 || matrix.row_bytes % 16 != 0 || matrix.tile_cols > 256 ||
      matrix.tile_rows > 256 || matrix.rows <= 0 || matrix.cols <= 0) {
    return "a tensor map must be of aligned rows";
  }
  *map = {.data = static_cast<const std::byte*>(matrix.data),
          .cols = matrix.cols,
          .rows = matrix.rows,
          .row_bytes = matrix.row_bytes,
          .box_cols = matrix.tile_cols,
          .box_rows = matrix.tile_rows,
          .element_bytes = matrix.element_bytes,
          .swizzled = matrix.element_bytes == 2};
  return nullptr;
}
#endif

}  // namespace lockstep::LOCKSTEP_TARGET
