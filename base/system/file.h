// SPDX-License-Identifier: Apache-2.0
// A regular file opened for reading at any offset. Reading copies, so a file that shrinks or breaks
// meanwhile causes an error and not a SIGBUS.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

#include "base/status.h"

namespace lockstep {

// Owns a file descriptor. Const members are thread-safe.
class File {
 public:
  // Follows symbolic links. Returns an error for anything but a regular file.
  static absl::StatusOr<File> open(const std::filesystem::path& path);

  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  ~File();

  const std::filesystem::path& path() const { return path_; }
  int64_t bytes() const { return bytes_; }  // The size when it was opened.
  int descriptor() const { return descriptor_; }

  // Fills out[0, bytes) from the file's [offset, offset + bytes), or returns why it could not.
  absl::Status read_at(int64_t offset, int64_t bytes, void* out) const;
  // Hints that this part is read soon, so that the system may start to read it. The call does not
  // wait: with several hints, the system reads several parts at once.
  void expect_read(int64_t offset, int64_t bytes) const;

  // Returns an error if the size is no longer bytes().
  absl::Status check_size() const;

 private:
  File() = default;

  std::filesystem::path path_;
  int descriptor_ = -1;
  int64_t bytes_ = 0;
};

// Writes at `offset` of a file open for writing. Returns the bytes written: all, unless it failed
// (errno has the reason). Thread-safe.
int64_t write_at(int descriptor, int64_t offset, const void* data, int64_t bytes);

// The content of a small file; an error if it is larger than max_bytes.
absl::StatusOr<std::string> read_file(const std::filesystem::path& path, int64_t max_bytes);

}  // namespace lockstep
