// SPDX-License-Identifier: Apache-2.0
// A file seen as memory, read only. For large files that are read here and there; small ones are
// better read whole (read_file in base/system/file.h).
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

#include "base/status.h"
#include "base/system/file.h"

namespace lockstep {

// Owns a private mapping; what bytes() and text() point to lives as long as it does, moves
// included. A file that is cut after open() makes reading past its new end a SIGBUS: map only files
// that are known not to shrink. Const members may be called from several threads at once.
class MappedFile {
 public:
  static absl::StatusOr<MappedFile> open(const std::filesystem::path& path);
  // Of a file that is open, which may be closed then.
  static absl::StatusOr<MappedFile> map(const File& file);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  // madvise(MADV_RANDOM): disables read-ahead.
  void expect_random_reads() const;

  const std::filesystem::path& path() const { return path_; }
  std::span<const std::byte> bytes() const { return bytes_; }
  std::string_view text() const {
    return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()};
  }

 private:
  MappedFile() = default;

  std::filesystem::path path_;
  std::span<const std::byte> bytes_;
};

}  // namespace lockstep
