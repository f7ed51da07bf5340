// SPDX-License-Identifier: Apache-2.0
// Writes a checkpoint: one safetensors file, or shards and their index. The sizes are known before
// the first byte is written, so tensors may be filled in any order and by any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"

namespace lockstep {

// A tensor to be written; dtype as headers spell it: "F32", "I8".
struct TensorSpec {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
};
int64_t stored_bytes(const TensorSpec& tensor);

// What a file begins with: the length, and the JSON that places the tensors one after another.
std::string safetensors_header(const std::vector<TensorSpec>& tensors);

class CheckpointWriter {
 public:
  // Files of at most `shard_bytes` of tensors each, unless one alone has more. Makes the files in
  // `folder`, which exists; none of them may.
  static absl::StatusOr<CheckpointWriter> create(const std::filesystem::path& folder,
                                                 const std::vector<TensorSpec>& tensors,
                                                 int64_t shard_bytes);
  CheckpointWriter(CheckpointWriter&&) noexcept;
  ~CheckpointWriter();

  // Bytes [offset, offset + bytes) of the tensor specs[tensor]. Any thread.
  absl::Status write(size_t tensor, int64_t offset, const void* data, int64_t bytes);
  // Everything is on the disk, with the index where there are several files.
  absl::Status finish();

 private:
  struct Shard;
  struct Place {
    size_t shard;
    int64_t begin;
    int64_t end;
  };

  CheckpointWriter() = default;

  std::filesystem::path folder_;
  std::vector<std::unique_ptr<Shard>> shards_;
  std::vector<Place> places_;  // By tensor.
  std::vector<std::string> names_;
};

}  // namespace lockstep
