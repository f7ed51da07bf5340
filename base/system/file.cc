// SPDX-License-Identifier: Apache-2.0
// Files by open, fstat and pread. Errors name the path and the system's reason.
#include "base/system/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/check.h"

namespace lockstep {

absl::StatusOr<File> File::open(const std::filesystem::path& path) {
  File file;
  file.path_ = path;
  // O_NONBLOCK: opening a FIFO must not hang; it changes nothing for regular files.
  file.descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file.descriptor_ < 0) {
    return failed_precondition("{}: cannot be opened for reading: {}", path.string(),
                               error_text(errno));
  }
  struct stat info {};
  if (::fstat(file.descriptor_, &info) != 0) {
    return failed_precondition("{}: cannot be examined: {}", path.string(), error_text(errno));
  }
  if (!S_ISREG(info.st_mode)) {
    return failed_precondition("{}: must be a regular file, found {}", path.string(),
                               S_ISDIR(info.st_mode) ? "a folder" : "a device, pipe or socket");
  }
  file.bytes_ = info.st_size;
  return file;
}

File::File(File&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      bytes_(std::exchange(other.bytes_, 0)) {}

File& File::operator=(File&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

File::~File() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

absl::Status File::read_at(int64_t offset, int64_t bytes, void* out) const {
  LOCKSTEP_CHECK(offset >= 0 && bytes >= 0);
  constexpr int64_t kLargestRead = int64_t{1} << 30;  // The kernel's own limit is just below 2 GiB.
  char* to = static_cast<char*>(out);
  while (bytes > 0) {
    const ssize_t got =
        ::pread(descriptor_, to, static_cast<size_t>(std::min(bytes, kLargestRead)), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      return failed_precondition("{}: cannot be read at byte {}: {}", path_.string(), offset,
                                 error_text(errno));
    }
    if (got == 0) {
      return failed_precondition(
          "{}: must have {} more bytes at byte {}, found the end of the file; it had {} bytes when "
          "it was opened; was it truncated while it was read?",
          path_.string(), bytes, offset, bytes_);
    }
    to += got;
    offset += got;
    bytes -= got;
  }
  return absl::OkStatus();
}

absl::Status File::check_size() const {
  struct stat info {};
  if (::fstat(descriptor_, &info) != 0) {
    return failed_precondition("{}: cannot be examined: {}", path_.string(), error_text(errno));
  }
  if (info.st_size != bytes_) {
    return failed_precondition("{}: had {} bytes, now has {}: it changed while it was opened",
                               path_.string(), bytes_, info.st_size);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> read_file(const std::filesystem::path& path, int64_t max_bytes) {
  ASSIGN_OR_RETURN(const File file, File::open(path));
  if (file.bytes() > max_bytes) {
    return failed_precondition("{}: must have at most {} bytes, found {}", path.string(), max_bytes,
                               file.bytes());
  }
  std::string text(static_cast<size_t>(file.bytes()), '\0');
  RETURN_IF_ERROR(file.read_at(0, file.bytes(), text.data()));
  return text;
}

void File::expect_read(int64_t offset, int64_t bytes) const {
  ::posix_fadvise(descriptor_, offset, bytes, POSIX_FADV_WILLNEED);
}

int64_t write_at(int descriptor, int64_t offset, const void* data, int64_t bytes) {
  const auto* from = static_cast<const std::byte*>(data);
  int64_t done = 0;
  while (done < bytes) {
    const ssize_t now =
        ::pwrite(descriptor, from + done, static_cast<size_t>(bytes - done), offset + done);
    if (now < 0 && errno == EINTR) continue;
    if (now == 0) errno = ENOSPC;
    if (now <= 0) break;
    done += now;
  }
  return done;
}

}  // namespace lockstep
