// SPDX-License-Identifier: Apache-2.0
// A read-only file mapped into memory. For large files of which only parts are read; a small file
// is better read whole (read_file in base/system/file.h).
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

#include "base/status.h"
#include "base/system/file.h"

namespace lockstep {

// Owns a private mapping. bytes() and text() point into the mapping and stay valid as long as this
// object lives, also when it is moved. If the file shrinks after open(), reading past its new end
// raises SIGBUS: map only files that do not shrink. Const members are thread-safe.
class MappedFile {
 public:
  static absl::StatusOr<MappedFile> open(const std::filesystem::path& path);
  // Maps an open file, which the caller may then close.
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
