// SPDX-License-Identifier: Apache-2.0
// The file is read into our own memory, on huge pages, and not mapped. A mapping starts 0.1 s per
// gigabyte sooner, but then the file system decides the kernels' speed: on ext4 with large folios,
// a loop over a mapping ran at 81 to 102 % of the speed of a loop over huge pages. With a mapping,
// evicted pages would be read from the disk again in the middle of a step. And if the file changed,
// the weights would change, or a read would raise SIGBUS. Checksums take almost no time, since the
// bytes that were just read are still in the CPU's caches.
#include "worker/weights/packed_cache.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <system_error>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/status.h"
#include "base/system/file.h"
#include "worker/host/memory.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr char kMagic[8] = {'L', 'S', 'P', 'A', 'C', 'K', 'E', 'D'};
constexpr uint64_t kFileVersion = 1;
constexpr const char* kSuffix = ".lockstep-weights";
constexpr int64_t kMinBytes = int64_t{64} << 20;
constexpr int64_t kBlockBytes = int64_t{2} << 20;  // A huge page, so one thread touches it.
constexpr int64_t kUnwrittenBytes = int64_t{256} << 20;
constexpr auto kFresh = std::chrono::minutes(10);

// The first page of a file, in this machine's byte order.
struct Header {
  char magic[8] = {};
  uint64_t version = 0;
  int64_t data_bytes = 0;
  uint64_t data_sum = 0;
  uint64_t header_sum = 0;  // Computed with 0 in this place.
  char key[128] = {};
  char rest[4096 - 168] = {};
};
static_assert(sizeof(Header) == 4096);

constexpr uint64_t kOdd = 0x9e3779b97f4a7c15;

// Eight sums side by side, so that multiplications do not wait for each other. An odd factor loses
// no bit: any change within one word of 8 bytes changes the sum.
uint64_t sum_of(const void* data, int64_t bytes, uint64_t seed) {
  LOCKSTEP_CHECK(bytes % kMemoryAlign == 0);
  uint64_t sums[8];
  for (uint64_t i = 0; i < 8; ++i) sums[i] = seed + i;
  const auto* from = static_cast<const std::byte*>(data);
  for (int64_t at = 0; at < bytes; at += kMemoryAlign) {
    uint64_t words[8];
    std::memcpy(words, from + at, sizeof(words));
    for (int i = 0; i < 8; ++i) sums[i] = (sums[i] ^ words[i]) * kOdd;
  }
  uint64_t all = seed;
  for (const uint64_t sum : sums) all = (all ^ (sum ^ sum >> 32)) * kOdd;
  return all;
}

uint64_t header_sum(Header header) {
  header.header_sum = 0;
  return sum_of(&header, sizeof(header), 0);
}

// run(offset, bytes) returns the Status of a block; the first error stops all. Returns the total of
// the blocks' sums, each of which has the block's number as its seed.
template <typename Run>
absl::StatusOr<uint64_t> for_blocks(int64_t bytes, const std::byte* data, Parallel& parallel,
                                    const std::atomic<bool>* cancelled, Progress* progress,
                                    const Run& run) {
  std::atomic<uint64_t> sum{0};
  std::atomic<bool> stopped{false};
  std::mutex mutex;
  absl::Status first_error;
  for_each(parallel, (bytes + kBlockBytes - 1) / kBlockBytes, [&](int64_t block) {
    if (stopped.load(std::memory_order_relaxed)) return;
    const int64_t begin = block * kBlockBytes, count = std::min(kBlockBytes, bytes - begin);
    absl::Status status = cancelled != nullptr && cancelled->load()
                              ? absl::CancelledError("loading was cancelled")
                              : run(begin, count);
    if (status.ok()) {
      sum += sum_of(data + begin, count, static_cast<uint64_t>(block));
      if (progress != nullptr) progress->add_load(count);
      return;
    }
    const std::lock_guard lock(mutex);
    if (first_error.ok()) first_error = std::move(status);
    stopped = true;
  });
  if (!first_error.ok()) return first_error;
  return sum.load();
}

absl::Status write_bytes(int descriptor, int64_t offset, int64_t bytes, const void* data) {
  const int64_t written = write_at(descriptor, offset, data, bytes);
  if (written == bytes) return absl::OkStatus();
  return failed_precondition("cannot be written at byte {}: {}", offset + written,
                             error_text(errno));
}

// Waits until the block kUnwrittenBytes before this one is on the disk: then the fsync at the end,
// which reports no progress, has little left to write.
void limit_unwritten(int descriptor, int64_t offset, int64_t bytes) {
  if (offset < kUnwrittenBytes) return;
  constexpr unsigned kAll =
      SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
  // If a file system does not support it, the fsync writes all.
  (void)::sync_file_range(descriptor, offset - kUnwrittenBytes, bytes, kAll);
}

// A file under a temporary name beside `path`; keep() renames it to `path`.
class NewFile {
 public:
  explicit NewFile(const std::string& path)
      : path_(path),
        temporary_(path + ".XXXXXX"),
        descriptor_(mkostemp(&temporary_[0], O_CLOEXEC)) {}
  ~NewFile() {
    if (descriptor_ < 0) return;
    ::close(descriptor_);
    if (!kept_) ::unlink(temporary_.c_str());
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  int descriptor() const { return descriptor_; }  // -1: errno has the reason.
  absl::Status keep() {
    if (::fsync(descriptor_) != 0)
      return failed_precondition("cannot be made durable: {}", error_text(errno));
    kept_ = ::rename(temporary_.c_str(), path_.c_str()) == 0;
    return kept_ ? absl::OkStatus()
                 : failed_precondition("cannot be renamed: {}", error_text(errno));
  }

 private:
  std::string path_;
  std::string temporary_;
  int descriptor_;
  bool kept_ = false;
};

struct CachedFile {
  fs::path path;
  fs::file_time_type used;
  int64_t bytes = 0;
};

// Our files in the folder, complete ones and unfinished ones; the oldest first.
std::vector<CachedFile> cached_files(const fs::path& folder) {
  std::vector<CachedFile> files;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::error_code gone;  // Set if another process has removed the file.
    CachedFile file{.path = it->path(), .used = it->last_write_time(gone)};
    if (!gone) file.bytes = static_cast<int64_t>(it->file_size(gone));
    const bool ours = file.path.filename().string().find(kSuffix) != std::string::npos;
    if (!gone && ours) files.push_back(std::move(file));
  }
  std::sort(files.begin(), files.end(),
            [](const CachedFile& a, const CachedFile& b) { return a.used < b.used; });
  return files;
}

}  // namespace

PackedCacheOptions packed_cache_options(const std::string& choice, int64_t limit_bytes) {
  if (choice == "off") return {};
  if (choice != "auto") return {.folder = choice, .limit_bytes = limit_bytes};
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  fs::path folder;
  if (cache != nullptr && cache[0] == '/') {  // The XDG standard says to ignore relative paths.
    folder = cache;
  } else if (home != nullptr && home[0] == '/') {
    folder = fs::path(home) / ".cache";
  } else {
    return {};
  }
  return {
      .folder = (folder / "lockstep").string(), .min_bytes = kMinBytes, .limit_bytes = limit_bytes};
}

PackedCache::PackedCache(PackedCacheOptions options, std::string key, Progress* progress)
    : options_(std::move(options)),
      key_(std::move(key)),
      path_((fs::path(options_.folder) / (key_ + kSuffix)).string()),
      progress_(progress) {
  LOCKSTEP_CHECK(key_.size() < sizeof(Header::key));
}

absl::Status PackedCache::read(std::span<std::byte> data, Parallel& parallel,
                               const std::atomic<bool>* cancelled,
                               const IsPresent& is_present) const {
  const auto bytes = static_cast<int64_t>(data.size());
  ASSIGN_OR_RETURN(const File file, File::open(path_));
  struct stat info {};
  if (::fstat(file.descriptor(), &info) != 0 || info.st_uid != ::geteuid()) {
    return failed_precondition("{}: the file must be this user's own", path_);
  }
  if (file.bytes() != static_cast<int64_t>(sizeof(Header)) + bytes) {
    return failed_precondition("{}: must have {} bytes, found {}", path_, sizeof(Header) + bytes,
                               file.bytes());
  }
  Header header;
  RETURN_IF_ERROR(file.read_at(0, sizeof(header), &header));
  if (std::memcmp(header.magic, kMagic, sizeof(kMagic)) != 0 || header.version != kFileVersion ||
      header.header_sum != header_sum(header) || header.data_bytes != bytes ||
      std::strncmp(header.key, key_.c_str(), sizeof(header.key)) != 0) {
    return failed_precondition("{}: must have packed weights of this name, found another header",
                               path_);
  }
  ASSIGN_OR_RETURN(const uint64_t sum,
                   for_blocks(bytes, data.data(), parallel, cancelled, progress_,
                              [&](int64_t begin, int64_t count) {
                                if (is_present != nullptr && is_present(begin, count)) {
                                  return absl::OkStatus();
                                }
                                return file.read_at(static_cast<int64_t>(sizeof(Header)) + begin,
                                                    count, data.data() + begin);
                              }));
  if (sum != header.data_sum) {
    return failed_precondition("{}: the sum of its bytes must be {:016x}, found {:016x}", path_,
                               header.data_sum, sum);
  }
  (void)::futimens(file.descriptor(), nullptr);  // The time of the last use, see make_room().
  return absl::OkStatus();
}

bool PackedCache::exists() const {
  struct stat info {};
  return ::stat(path_.c_str(), &info) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

bool PackedCache::load(std::span<std::byte> data, Parallel& parallel,
                       const std::atomic<bool>* cancelled, const IsPresent& is_present) const {
  if (!exists()) return false;
  const absl::Status status = read(data, parallel, cancelled, is_present);
  if (status.ok()) {
    spdlog::info("packed weights: {} from {}", memory_text(static_cast<int64_t>(data.size())),
                 path_);
    return true;
  }
  std::fill(data.begin(), data.end(), std::byte{0});
  if (cancelled == nullptr || !cancelled->load()) {
    spdlog::warn("packed weights: {}; they are packed again", message_of(status));
  }
  return false;
}

absl::Status PackedCache::make_room(int64_t bytes) const {
  if (bytes > options_.limit_bytes) {
    return failed_precondition("needs {}, found a limit of {}: raise --weight-cache-limit",
                               memory_text(bytes), memory_text(options_.limit_bytes));
  }
  const std::vector<CachedFile> files = cached_files(options_.folder);
  int64_t total = bytes;
  for (const CachedFile& file : files) total += file.path == path_ ? 0 : file.bytes;
  const auto fresh = fs::file_time_type::clock::now() - kFresh;
  for (const CachedFile& file : files) {
    if (file.used > fresh) break;
    const bool abandoned = file.path.extension() != kSuffix;  // By a writer that was killed.
    if (file.path == path_ || (total <= options_.limit_bytes && !abandoned)) continue;
    std::error_code error;
    if (fs::remove(file.path, error)) total -= file.bytes;
  }
  if (total > options_.limit_bytes) {
    return failed_precondition(
        "needs {}, found the limit of {} filled by files in use: raise --weight-cache-limit",
        memory_text(bytes), memory_text(options_.limit_bytes));
  }
  std::error_code error;
  const fs::space_info space = fs::space(options_.folder, error);
  if (!error && static_cast<int64_t>(space.available / 2) < bytes) {
    return failed_precondition("free disk space must be at least twice {}, found {}",
                               memory_text(bytes), memory_text(space.available));
  }
  return absl::OkStatus();
}

absl::Status PackedCache::write(std::span<const std::byte> data, Parallel& parallel,
                                const std::atomic<bool>* cancelled) const {
  std::error_code error;
  fs::create_directories(options_.folder, error);
  if (error) return failed_precondition("the folder cannot be created: {}", error.message());
  const auto bytes = static_cast<int64_t>(data.size());
  RETURN_IF_ERROR(make_room(bytes));
  NewFile file(path_);
  if (file.descriptor() < 0) return failed_precondition("cannot be created: {}", error_text(errno));
  const auto data_begin = static_cast<int64_t>(sizeof(Header));
  // A full disk is noticed here, if the file system can report it.
  if (::fallocate(file.descriptor(), 0, 0, data_begin + bytes) != 0 && errno != EOPNOTSUPP) {
    return failed_precondition("{} cannot be allocated: {}", memory_text(bytes), error_text(errno));
  }
  Header header;
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  header.version = kFileVersion;
  header.data_bytes = bytes;
  std::memcpy(header.key, key_.data(), key_.size());
  ASSIGN_OR_RETURN(header.data_sum,
                   for_blocks(bytes, data.data(), parallel, cancelled, progress_,
                              [&](int64_t begin, int64_t count) {
                                limit_unwritten(file.descriptor(), data_begin + begin, count);
                                return write_bytes(file.descriptor(), data_begin + begin, count,
                                                   data.data() + begin);
                              }));
  header.header_sum = header_sum(header);
  RETURN_IF_ERROR(write_bytes(file.descriptor(), 0, data_begin, &header));
  return file.keep();
}

void PackedCache::store(std::span<const std::byte> data, Parallel& parallel,
                        const std::atomic<bool>* cancelled) const {
  const auto start = std::chrono::steady_clock::now();
  const absl::Status status = write(data, parallel, cancelled);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  const auto bytes = static_cast<int64_t>(data.size());
  if (status.ok()) {
    spdlog::info("packed weights: {} kept in {}, {:.1f} s", memory_text(bytes), path_,
                 took.count());
  } else if (cancelled == nullptr || !cancelled->load()) {
    spdlog::warn("packed weights: {}: {}; the next start packs them again", path_,
                 message_of(status));
  }
}

}  // namespace lockstep
