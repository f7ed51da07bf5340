// SPDX-License-Identifier: Apache-2.0
// Faults of a folder with packed weights: files that are cut, changed, foreign or missing, full
// disks, other processes. None of them may do more than cost time.
#include "worker/weights/packed_cache.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <fstream>
#include <optional>
#include <thread>
#include <vector>

#include "base/threads/thread_pool.h"
#include "tests/support/environment.h"
#include "tests/support/files/temp_folder.h"
#include "tests/support/processes/child_process.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kBytes = (int64_t{5} << 20) + 192;  // Two whole blocks and part of a third.
constexpr int64_t kFileBytes = 4096 + kBytes;

std::vector<std::byte> some_bytes(uint32_t seed) {
  std::vector<std::byte> bytes(kBytes);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>((seed = seed * 1664525 + 7) >> 24);
  return bytes;
}

struct Folder {
  TempFolder temp;
  PackedCacheOptions options{.folder = (temp.path() / "a/b").string()};

  PackedCache cache(const std::string& key = "k1") const { return {options, key}; }
  bool store(const std::vector<std::byte>& bytes, const std::string& key = "k1") const {
    ThreadPool pool(2);
    cache(key).store(bytes, pool, nullptr);
    return fs::exists(cache(key).path());
  }
  // The bytes that are loaded, if any.
  std::optional<std::vector<std::byte>> load(const std::string& key = "k1", int64_t bytes = kBytes,
                                             const std::atomic<bool>* cancelled = nullptr) const {
    ThreadPool pool(3);
    std::vector<std::byte> found(static_cast<size_t>(bytes));
    if (cache(key).load(found, pool, cancelled)) return found;
    EXPECT_EQ(std::count(found.begin(), found.end(), std::byte{0}), bytes);
    return std::nullopt;
  }
  bool has(const std::vector<std::byte>& bytes, const std::string& key = "k1") const {
    return load(key) == bytes;
  }
  bool has_none(int64_t bytes = kBytes) const { return !load("k1", bytes).has_value(); }
  int files() const {
    return static_cast<int>(
        std::distance(fs::directory_iterator(options.folder), fs::directory_iterator()));
  }
};

void flip(const std::string& path, int64_t at) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(at);
  const char byte = static_cast<char>(file.get() ^ 0x10);
  file.seekp(at);
  file.put(byte);
  ASSERT_TRUE(file.good()) << at;
}

void make_old(const std::string& path, int hours) {
  fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(hours));
}

TEST(PackedCacheTest, StoredBytesAreLoaded) {
  const Folder folder;
  const auto bytes = some_bytes(1);
  EXPECT_TRUE(folder.has_none());  // The folder does not exist yet.
  ASSERT_TRUE(folder.store(bytes));
  EXPECT_TRUE(folder.has(bytes));
  EXPECT_FALSE(folder.has(bytes, "k2"));
  EXPECT_EQ(folder.files(), 1);
  struct stat info {};
  ASSERT_EQ(stat(folder.cache().path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST(PackedCacheTest, AChangedByteAnywhereIsDetectedAndTheFileIsRewritten) {
  const Folder folder;
  const auto bytes = some_bytes(2);
  for (const int64_t at :
       {int64_t{0}, int64_t{9}, int64_t{17}, int64_t{25}, int64_t{33}, int64_t{41}, int64_t{4095},
        int64_t{4096}, int64_t{4096 + 77}, int64_t{4096} + (2 << 20), kFileBytes - 1}) {
    ASSERT_TRUE(folder.store(bytes));
    flip(folder.cache().path(), at);
    EXPECT_TRUE(folder.has_none()) << at;
    ASSERT_TRUE(folder.store(bytes));
    EXPECT_TRUE(folder.has(bytes)) << at;
  }
}

TEST(PackedCacheTest, SwappedBlocksAreDetected) {
  const Folder folder;
  auto bytes = some_bytes(3);
  ASSERT_TRUE(folder.store(bytes));
  std::fstream file(folder.cache().path(), std::ios::in | std::ios::out | std::ios::binary);
  constexpr int64_t kBlock = 2 << 20;
  file.seekp(4096);
  file.write(reinterpret_cast<const char*>(bytes.data() + kBlock), kBlock);
  file.write(reinterpret_cast<const char*>(bytes.data()), kBlock);
  file.close();
  EXPECT_TRUE(folder.has_none());
}

TEST(PackedCacheTest, TruncatedLongerAndForeignFilesAreIgnored) {
  const Folder folder;
  const auto bytes = some_bytes(4);
  for (const int64_t size :
       {int64_t{0}, int64_t{100}, int64_t{4096}, kFileBytes - 1, kFileBytes + 1}) {
    ASSERT_TRUE(folder.store(bytes));
    fs::resize_file(folder.cache().path(), size);
    EXPECT_TRUE(folder.has_none()) << size;
  }
  ASSERT_TRUE(folder.store(bytes, "k2"));
  fs::copy_file(folder.cache("k2").path(), folder.cache("k1").path(),
                fs::copy_options::overwrite_existing);
  EXPECT_TRUE(folder.has_none());  // The file of another key, under this key's name.
  fs::remove(folder.cache().path());
  fs::create_directory(folder.cache().path());
  EXPECT_TRUE(folder.has_none());
  ASSERT_TRUE(folder.store(bytes, "k3"));
  EXPECT_TRUE(folder.has(bytes, "k3"));
  EXPECT_TRUE(folder.has_none(kBytes - 64));
}

TEST(PackedCacheTest, AnotherUsersFileIsIgnored) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  const Folder folder;
  ASSERT_TRUE(folder.store(some_bytes(5)));
  ASSERT_EQ(chown(folder.cache().path().c_str(), 12345, 12345), 0);
  EXPECT_TRUE(folder.has_none());
}

TEST(PackedCacheTest, ConcurrentProcessesSeeWholeFilesOrNone) {
  const Folder folder;
  const auto bytes = some_bytes(6);
  const auto life = [&]() -> absl::Status {
    for (int round = 0; round < 10; ++round) {
      ThreadPool pool(1);
      if (folder.load().value_or(bytes) != bytes) {
        return absl::InternalError("found other bytes");
      }
      folder.cache().store(bytes, pool, nullptr);
      // A whole file replaces the old one: there is no moment without a file.
      if (!folder.has(bytes)) return absl::InternalError("found none after a store");
    }
    return absl::OkStatus();
  };
  Child a(life), b(life), c(life);
  for (Child* child : {&a, &b, &c}) EXPECT_EQ(message_of(child->result()), "");
  EXPECT_TRUE(folder.has(bytes));
  EXPECT_EQ(folder.files(), 1);
}

TEST(PackedCacheTest, AKilledWriterLeavesNoFileThatIsUsed) {
  const Folder folder;
  const auto bytes = some_bytes(7);
  {
    Child writer([&]() -> absl::Status {
      ThreadPool pool(1);
      while (true) folder.cache("k2").store(bytes, pool, nullptr);
    });
    EXPECT_FALSE(writer.result(std::chrono::milliseconds(30)).ok());
  }
  EXPECT_EQ(folder.load("k2").value_or(bytes), bytes);
  // A leftover part is deleted after it is old enough.
  const std::string part = folder.cache("k9").path() + ".abcdef";
  ASSERT_TRUE(folder.store(bytes));
  std::ofstream(part) << "part";
  ASSERT_TRUE(folder.store(bytes));
  EXPECT_TRUE(fs::exists(part));
  make_old(part, 1);
  ASSERT_TRUE(folder.store(bytes));
  EXPECT_FALSE(fs::exists(part));
}

TEST(PackedCacheTest, AFullDiskLeavesNoFile) {
  const Folder folder;
  const auto bytes = some_bytes(8);
  Child child([&] {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1 << 20, 1 << 20};  // The system reports a larger file as too large.
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return absl::InternalError("no limit");
    return folder.store(bytes) ? absl::InternalError("a file was kept") : absl::OkStatus();
  });
  EXPECT_EQ(message_of(child.result()), "");
  EXPECT_EQ(folder.files(), 0);
  EXPECT_TRUE(folder.store(bytes));
}

TEST(PackedCacheTest, AnUnwritableFolderIsSurvived) {
  Folder folder;
  const auto bytes = some_bytes(9);
  folder.options.folder = "/proc/lockstep";  // Not even root can create folders there.
  EXPECT_FALSE(folder.store(bytes));
  EXPECT_TRUE(folder.has_none());
  const fs::path file = folder.temp.path() / "file";
  std::ofstream(file) << "x";
  folder.options.folder = (file / "below").string();
  EXPECT_FALSE(folder.store(bytes));
  EXPECT_TRUE(folder.has_none());
  if (geteuid() == 0) return;  // Root may write anywhere.
  folder.options.folder = folder.temp.path().string();
  fs::permissions(folder.temp.path(), fs::perms::owner_read | fs::perms::owner_exec);
  EXPECT_FALSE(folder.store(bytes));
  fs::permissions(folder.temp.path(), fs::perms::owner_all);
}

TEST(PackedCacheTest, TheLeastRecentlyUsedFileIsEvicted) {
  Folder folder;
  folder.options.limit_bytes = 3 * kFileBytes;
  const auto bytes = some_bytes(10);
  const std::string other = folder.options.folder + "/model.weights";
  for (const char* key : {"k1", "k2", "k3"}) ASSERT_TRUE(folder.store(bytes, key));
  std::ofstream(other) << "not ours";
  make_old(other, 9);
  make_old(folder.cache("k1").path(), 3);
  make_old(folder.cache("k2").path(), 2);
  make_old(folder.cache("k3").path(), 1);
  EXPECT_TRUE(folder.has(bytes, "k1"));  // This use makes k2 the oldest.
  EXPECT_TRUE(folder.store(bytes, "k4"));
  EXPECT_FALSE(fs::exists(folder.cache("k2").path()));
  for (const char* key : {"k1", "k3", "k4"}) EXPECT_TRUE(folder.has(bytes, key)) << key;
  // Files used in the last minutes stay: the ranks of a model must not evict each other's.
  EXPECT_FALSE(folder.store(bytes, "k5"));
  EXPECT_TRUE(fs::exists(other));
  EXPECT_EQ(folder.files(), 4);
  folder.options.limit_bytes = kBytes - 1;
  EXPECT_FALSE(folder.store(bytes, "k6"));
}

TEST(PackedCacheTest, ACancelledLoadGivesNothingAndACancelledStoreKeepsNothing) {
  const Folder folder;
  const auto bytes = some_bytes(11);
  ThreadPool pool(2);
  const std::atomic<bool> cancelled{true};
  folder.cache().store(bytes, pool, &cancelled);
  EXPECT_EQ(folder.files(), 0);
  ASSERT_TRUE(folder.store(bytes));
  EXPECT_FALSE(folder.load("k1", kBytes, &cancelled).has_value());
}

TEST(PackedCacheTest, TheOptionSelectsTheFolder) {
  const ScopedVariable cache("XDG_CACHE_HOME", "/x"), home("HOME", "/me");
  EXPECT_EQ(packed_cache_options("auto", 7).folder, "/x/lockstep");
  EXPECT_EQ(packed_cache_options("auto", 7).min_bytes, 64 << 20);
  EXPECT_EQ(packed_cache_options("auto", 7).limit_bytes, 7);
  const ScopedVariable relative("XDG_CACHE_HOME", "relative");
  EXPECT_EQ(packed_cache_options("auto", 7).folder, "/me/.cache/lockstep");
  const ScopedVariable no_cache("XDG_CACHE_HOME", std::nullopt), no_home("HOME", std::nullopt);
  EXPECT_EQ(packed_cache_options("auto", 7).folder, "");
  EXPECT_EQ(packed_cache_options("off", 7).folder, "");
  EXPECT_EQ(packed_cache_options("here", 7).folder, "here");
  EXPECT_EQ(packed_cache_options("here", 7).min_bytes, 0);
}

}  // namespace
}  // namespace lockstep
