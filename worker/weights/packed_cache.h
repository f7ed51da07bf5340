// SPDX-License-Identifier: Apache-2.0
// A rank's packed weights as a file, kept from one start to the next: a second start reads no
// checkpoint and packs nothing.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "base/threads/parallel.h"
#include "worker/progress.h"

namespace lockstep {

inline constexpr int64_t kPackedCacheLimit = 50'000'000'000;

struct PackedCacheOptions {
  std::string folder = {};                  // "": nothing is kept.
  int64_t min_bytes = 0;                    // Smaller weights are not kept: packing is as fast.
  int64_t limit_bytes = kPackedCacheLimit;  // For all files in the folder.
};

// The meaning of `--weight-cache`: "off", a folder, or "auto", which is $XDG_CACHE_HOME/lockstep,
// else ~/.cache/lockstep, for weights of 64 MiB and more.
PackedCacheOptions packed_cache_options(const std::string& choice, int64_t limit_bytes);

// One file of the folder, <key>.lockstep-weights: a page with magic, version, key, sizes and sums,
// then the bytes as they are in memory. It appears complete (written under another name, made
// durable, renamed) and is used only if every sum is right. So any number of processes may share
// the folder, and a damaged file costs only time. Errors are one line of the log.
class PackedCache {
 public:
  // `key`: letters and digits; equal keys mean equal bytes. `progress` may be null, and outlives
  // the cache.
  PackedCache(PackedCacheOptions options, std::string key, Progress* progress = nullptr);

  bool exists() const;

  // Whether these bytes of the data are already correct.
  using IsPresent = std::function<bool(int64_t begin, int64_t bytes)>;

  // Fills `data`. Bytes for which `is_present` is true are not read, but their sums are checked.
  // False if there is no file. False, and `data` is zeros, if the file cannot be used (another
  // size, key or owner, or a wrong sum) or if loading was cancelled.
  bool load(std::span<std::byte> data, Parallel& parallel, const std::atomic<bool>* cancelled,
            const IsPresent& is_present = nullptr) const;

  // Writes the file. To make room it deletes the least recently used files, but none that was used
  // in the last ten minutes. Otherwise the ranks of one model would delete each other's files. The
  // file takes at most half of the free disk space.
  void store(std::span<const std::byte> data, Parallel& parallel,
             const std::atomic<bool>* cancelled) const;

  const std::string& path() const { return path_; }

 private:
  absl::Status read(std::span<std::byte> data, Parallel& parallel,
                    const std::atomic<bool>* cancelled, const IsPresent& is_present) const;
  absl::Status write(std::span<const std::byte> data, Parallel& parallel,
                     const std::atomic<bool>* cancelled) const;
  absl::Status make_room(int64_t bytes) const;

  PackedCacheOptions options_;
  std::string key_;
  std::string path_;
  Progress* progress_;
};

}  // namespace lockstep
