// SPDX-License-Identifier: Apache-2.0
// A regular file opened for reading at any offset. Reading copies, so a file that shrinks or breaks
// under us is an error and not a SIGBUS.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

#include "base/status.h"

namespace lockstep {

// Owns a file descriptor. Const members may be called from several threads at once.
class File {
 public:
  // Follows symbolic links; anything but a regular file is an error.
  static absl::StatusOr<File> open(const std::filesystem::path& path);

  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  ~File();

  const std::filesystem::path& path() const { return path_; }
  int64_t bytes() const { return bytes_; }  // When it was opened.
  int descriptor() const { return descriptor_; }

  // Fills out[0, bytes) from the file's [offset, offset + bytes), or says why not.
  absl::Status read_at(int64_t offset, int64_t bytes, void* out) const;
  // The system begins to read this part, if it likes, and this call does not wait for it: many
  // parts are then read at once.
  void expect_read(int64_t offset, int64_t bytes) const;

  // Fails where the size is no longer bytes().
  absl::Status check_size() const;

 private:
  File() = default;

  std::filesystem::path path_;
  int descriptor_ = -1;
  int64_t bytes_ = 0;
};

// Writes at `offset` of a file that is open for it: the bytes written, all of them unless it failed
// (errno says why). Any thread.
int64_t write_at(int descriptor, int64_t offset, const void* data, int64_t bytes);

// The whole of a small file; larger than max_bytes is an error.
absl::StatusOr<std::string> read_file(const std::filesystem::path& path, int64_t max_bytes);

}  // namespace lockstep
