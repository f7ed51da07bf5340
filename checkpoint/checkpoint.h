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

// Holds the files open. Tensors are read by pread into a small buffer and not through a mapping: a
// file that is cut or lost while it is read (network file systems too) is then an error that names
// it, where a mapping would be a SIGBUS; the copy goes through the cache and costs next to nothing
// beside the packing. Const members may be called from several threads at once.
class Checkpoint {
 public:
  // model.safetensors, else model.safetensors.index.json with its shards, else the only
  // *.safetensors of the folder. All headers are read and checked, which takes seconds where they
  // have many MB: `alive` is called meanwhile.
  static absl::StatusOr<Checkpoint> open(const std::filesystem::path& folder,
                                         const SignOfLife& alive = {});

  const std::filesystem::path& folder() const { return folder_; }
  const std::vector<TensorInfo>& tensors() const { return tensors_; }  // By name, ascending.

  // Null where there is none. Valid as long as the checkpoint is, moves included.
  const TensorInfo* find(std::string_view name) const;

  // That a tensor of this checkpoint is in.
  const File& file_of(const TensorInfo& tensor) const { return files_[tensor.file]; }

  // A process that has read these files knows by it whether they changed since: device, inode,
  // size, times of change and header of each. No user can set the time of an inode's change, and a
  // write within the same tick of the clock would not change it: files that were written a moment
  // ago are waited for, 20 ms. Other mounts and copies of the same files have other stamps.
  absl::StatusOr<std::string> stamp() const;
  // Distinguishes these weights from others, in any process and on any host or mount: of each file
  // its size, its header and a checksum of 4 KiB from the middle of every tensor, as a fine-tune
  // may change one matrix alone. Calls `alive` for each tensor.
  absl::StatusOr<std::string> contents(const SignOfLife& alive = {}) const;
  // When each file was last written, as its time says: remounts, images and `cp -p` keep it.
  absl::StatusOr<std::string> written_at() const;

  // A rectangle of a tensor (of this checkpoint, seen as a matrix) as float32:
  // out[r * out_stride + c], or out[c * out_stride + r] if transposed, r and c counted from the
  // rectangle's corner. Reads no page of the file that holds nothing of the rectangle.
  absl::Status read(const TensorInfo& tensor, const Rectangle& rectangle, bool transposed,
                    float* out, int64_t out_stride) const;
  // The same as the file has it, whatever its type (one of whole bytes): rows of the rectangle end
  // to end.
  absl::Status read_stored(const TensorInfo& tensor, const Rectangle& rectangle, void* out) const;

 private:
  Checkpoint() = default;
  absl::Status add_file(const std::filesystem::path& path, const SignOfLife& alive);
  absl::Status open_shards(const std::filesystem::path& index_path, const SignOfLife& alive);
  absl::Status sort_tensors();

  std::filesystem::path folder_;
  std::vector<File> files_;
  std::vector<TensorInfo> tensors_;
};

}  // namespace lockstep
