// SPDX-License-Identifier: Apache-2.0
// The safetensors header. The first two bytes of an input are the size of the data after the
// header, the rest is the header's JSON.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "checkpoint/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const std::string_view header(reinterpret_cast<const char*>(data) + 2, size - 2);
  const int64_t file_bytes = 8 + static_cast<int64_t>(header.size()) + data[0] + 256 * data[1];
  const auto tensors = lockstep::parse_safetensors_header(header, file_bytes, "fuzz");
  if (!tensors.ok()) {
    LOCKSTEP_CHECK(tensors.status().message().size() < 1000);
    return 0;
  }
  // Accepted tensors lie within the file and cover it.
  int64_t reached = 8 + static_cast<int64_t>(header.size());
  for (const lockstep::TensorInfo& tensor : *tensors) {
    LOCKSTEP_CHECK(tensor.begin == reached && tensor.begin <= tensor.end);
    const int64_t element = lockstep::dtype_bytes(tensor.dtype);
    LOCKSTEP_CHECK(element == 0 ||
                   tensor.rows * tensor.cols * element == tensor.end - tensor.begin);
    reached = tensor.end;
  }
  LOCKSTEP_CHECK(reached == file_bytes);
  return 0;
}
