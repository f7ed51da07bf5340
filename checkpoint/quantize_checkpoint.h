// SPDX-License-Identifier: Apache-2.0
// Quantizes some of a checkpoint's matrices: the work of `lockstep quantize`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>

#include "base/status.h"
#include "base/threads/parallel.h"
#include "checkpoint/checkpoint.h"

namespace lockstep {

struct QuantizeOptions {
  std::map<std::string, DType> kinds;  // By name of a matrix or stack; other tensors are copied.
  int64_t shard_bytes = int64_t{4} << 30;
  std::function<void(int64_t done, int64_t total)> progress = {};  // Bytes; on the calling thread.
  std::function<bool()> cancelled = {};  // Before each block, on any thread. True: kCancelled.
};

// Writes into `folder`, which exists. The codes equal those computed when the same matrices are
// quantized at load. Returns the bytes of all tensors.
absl::StatusOr<int64_t> quantize_checkpoint(const Checkpoint& from,
                                            const std::filesystem::path& folder,
                                            const QuantizeOptions& options, Parallel& parallel);

}  // namespace lockstep
