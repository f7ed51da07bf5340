// SPDX-License-Identifier: Apache-2.0
// Writes a checkpoint: one safetensors file, or shards and their index. All sizes are known in
// advance, so tensors may be filled in any order by any thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"

namespace lockstep {

// A tensor to write; dtype as headers spell it: "F32", "I8".
struct TensorSpec {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
};
int64_t stored_bytes(const TensorSpec& tensor);

// The beginning of a file: the length of the JSON, then the JSON. The tensors follow in this order,
// without gaps.
std::string safetensors_header(const std::vector<TensorSpec>& tensors);

class CheckpointWriter {
 public:
  // Creates files of at most `shard_bytes` of tensors each; a larger tensor gets its own file.
  // `folder` must exist and have no file of these names.
  static absl::StatusOr<CheckpointWriter> create(const std::filesystem::path& folder,
                                                 const std::vector<TensorSpec>& tensors,
                                                 int64_t shard_bytes);
  CheckpointWriter(CheckpointWriter&&) noexcept;
  ~CheckpointWriter();

  // Writes bytes [offset, offset + bytes) of the tensor specs[tensor]. Any thread.
  absl::Status write(size_t tensor, int64_t offset, const void* data, int64_t bytes);
  // Syncs all files to the disk and, if there are several, writes the index.
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
