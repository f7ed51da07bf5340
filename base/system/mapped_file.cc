// SPDX-License-Identifier: Apache-2.0
// open, fstat, mmap, then the size again: a file that is still being written is refused.
#include "base/system/mapped_file.h"

#include <sys/mman.h>

#include <cerrno>
#include <utility>

namespace lockstep {

absl::StatusOr<MappedFile> MappedFile::open(const std::filesystem::path& path) {
  ASSIGN_OR_RETURN(const File file, File::open(path));
  return map(file);
}

absl::StatusOr<MappedFile> MappedFile::map(const File& file) {
  MappedFile mapped;
  mapped.path_ = file.path();
  if (file.bytes() > 0) {  // mmap refuses an empty range.
    const auto size = static_cast<size_t>(file.bytes());
    void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.descriptor(), 0);
    if (data == MAP_FAILED) {
      return failed_precondition("{}: {} bytes cannot be mapped: {}", file.path().string(), size,
                                 error_text(errno));
    }
    mapped.bytes_ = {static_cast<const std::byte*>(data), size};
  }
  RETURN_IF_ERROR(file.check_size());
  return mapped;
}

void MappedFile::expect_random_reads() const {
  if (bytes_.empty()) return;
  (void)::madvise(const_cast<std::byte*>(bytes_.data()), bytes_.size(), MADV_RANDOM);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace lockstep
