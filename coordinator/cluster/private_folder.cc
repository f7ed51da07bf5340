// SPDX-License-Identifier: Apache-2.0
// The owner holds a lock on a file in the folder; the system drops it however the owner ends, so
// whoever gets the lock may remove the folder.
#include "coordinator/cluster/private_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include "base/status.h"

namespace lockstep {
namespace {

constexpr char kPrefix[] = "lockstep-";
constexpr size_t kRandomLetters = 6;  // That mkdtemp puts in.

std::string lock_path(const std::string& folder) { return folder + "/lock"; }

bool is_ours(const std::string& path) {
  struct stat info;
  return lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == geteuid() &&
         (info.st_mode & 07777) == 0700;
}

// A descriptor with the lock, or -1: its owner lives, or there is no such file.
int take_lock(const std::string& folder, int flags) {
  const int file = open(lock_path(folder).c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC | flags, 0600);
  if (file < 0) return -1;
  struct stat info;
  if (flock(file, LOCK_EX | LOCK_NB) == 0 && fstat(file, &info) == 0 && info.st_nlink > 0) {
    return file;
  }
  close(file);
  return -1;
}

void remove_folder(const std::string& path) {
  std::error_code error;
  std::filesystem::remove_all(path, error);
}

}  // namespace

int remove_stale_folders(const std::string& parent) {
  std::vector<std::string> found;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(parent, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with(kPrefix) && name.size() == std::strlen(kPrefix) + kRandomLetters) {
      found.push_back(entry->path().string());
    }
  }
  int removed = 0;
  for (const std::string& path : found) {
    if (!is_ours(path)) continue;
    const int lock = take_lock(path, 0);
    if (lock < 0) continue;
    remove_folder(path);
    close(lock);
    ++removed;
  }
  return removed;
}

absl::StatusOr<std::unique_ptr<PrivateFolder>> PrivateFolder::make_in(const std::string& parent) {
  remove_stale_folders(parent);
  // A folder whose lock is not yet taken may be removed by another's start: then the next one.
  for (int attempt = 0; attempt < 100; ++attempt) {
    std::string path = fmt::format("{}/{}{}", parent, kPrefix, std::string(kRandomLetters, 'X'));
    if (mkdtemp(path.data()) == nullptr) break;
    const int lock = take_lock(path, O_CREAT);
    if (lock >= 0) return std::unique_ptr<PrivateFolder>(new PrivateFolder(path, lock));
    remove_folder(path);
  }
  return failed_precondition("could not make a folder in {} for the workers' socket: {}", parent,
                             error_text(errno));
}

absl::StatusOr<std::unique_ptr<PrivateFolder>> PrivateFolder::make() {
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  if (runtime != nullptr && runtime[0] == '/') {
    auto folder = make_in(runtime);
    if (folder.ok()) return folder;
  }
  return make_in("/tmp");
}

PrivateFolder::~PrivateFolder() {
  remove_folder(path_);
  close(lock_);
}

}  // namespace lockstep
