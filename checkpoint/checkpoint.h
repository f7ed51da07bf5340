// SPDX-License-Identifier: Apache-2.0
// Published weights in a folder: one safetensors file, or shards and their index.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/system/file.h"
#include "checkpoint/rectangle.h"
#include "checkpoint/safetensors.h"

namespace lockstep {

// Keeps the files open. Tensors are read by pread into a small buffer, not through a mapping. If a
// file is truncated or lost during the read (on network file systems, too), the error names the
// file; a mapping would raise SIGBUS. The buffer stays in the processor's cache, so the copy costs
// little compared with packing. Const members are thread-safe.
class Checkpoint {
 public:
  // Opens model.safetensors, else model.safetensors.index.json with its shards, else the only
  // *.safetensors file of the folder. Reads and checks all headers; this takes seconds if they have
  // many MB, so `alive` is called meanwhile.
  static absl::StatusOr<Checkpoint> open(const std::filesystem::path& folder,
                                         const ProgressCallback& alive = {});

  const std::filesystem::path& folder() const { return folder_; }
  const std::vector<TensorInfo>& tensors() const { return tensors_; }  // By name, ascending.

  // Null if there is no such tensor. The pointer is valid as long as the checkpoint, also when the
  // checkpoint is moved.
  const TensorInfo* find(std::string_view name) const;

  // The file that contains a tensor of this checkpoint.
  const File& file_of(const TensorInfo& tensor) const { return files_[tensor.file]; }

  // A process that has read these files compares stamps to see whether a file has changed since. A
  // stamp has each file's device, inode, size, times of change and header. No user can set an
  // inode's change time. But a second write within one clock tick leaves that time as it is, so
  // stamp() waits until the last write is 20 ms old. Other mounts and copies of the same files have
  // other stamps.
  absl::StatusOr<std::string> stamp() const;
  // A text that identifies these weights, in any process and on any host or mount: the size and
  // header of each file, and a checksum of 4 KiB from the middle of every tensor, because
  // fine-tuning may change only one matrix. Calls `alive` for each tensor.
  absl::StatusOr<std::string> contents(const ProgressCallback& alive = {}) const;
  // Each file's modification time: remounts, images and `cp -p` keep it.
  absl::StatusOr<std::string> written_at() const;

  // Reads a rectangle of a tensor of this checkpoint, seen as a matrix, as float32. The element in
  // row r and column c of the rectangle goes to out[r * out_stride + c], or if `transposed` to
  // out[c * out_stride + r]. Reads only pages of the file that contain a part of the rectangle.
  absl::Status read(const TensorInfo& tensor, const Rectangle& rectangle, bool transposed,
                    float* out, int64_t out_stride) const;
  // The same without conversion, for any type of whole bytes. Writes the rectangle's rows to `out`
  // end to end.
  absl::Status read_stored(const TensorInfo& tensor, const Rectangle& rectangle, void* out) const;

 private:
  Checkpoint() = default;
  absl::Status add_file(const std::filesystem::path& path, const ProgressCallback& alive);
  absl::Status open_shards(const std::filesystem::path& index_path, const ProgressCallback& alive);
  absl::Status sort_tensors();

  std::filesystem::path folder_;
  std::vector<File> files_;
  std::vector<TensorInfo> tensors_;
};

}  // namespace lockstep
