// SPDX-License-Identifier: Apache-2.0
// The index of resumable streams and of their memory. Clients resume a stream by its name. The
// index has no thread, clock or lock: the caller passes the time.
#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "absl/status/statusor.h"

namespace lockstep {

class ResumableStream;

// Two owners may use the same id.
struct ResumableName {
  std::string owner;  // An API key's name; "" if the server has no keys.
  std::string id;     // The request's id.
  friend bool operator<(const ResumableName& a, const ResumableName& b) {
    return std::tie(a.owner, a.id) < std::tie(b.owner, b.id);
  }
};

// kInvalidArgument unless the id can be a path segment: 1 to 128 letters, digits and -_.:~, the
// first of them a letter or digit.
absl::Status check_resumable_id(std::string_view id);

struct ResumableOptions {
  int64_t max_bytes = int64_t{256} << 20;  // For all streams.
  int64_t after_end_ms = 60'000;           // How long a stream is kept after its end.
};

struct ResumableCounts {
  int64_t streams = 0;
  int64_t bytes = 0;
};

// A stream's memory without its events and its request: names, locks, first blocks.
inline constexpr int64_t kResumableStreamBytes = 4096;
// How many names of dropped streams are remembered.
inline constexpr size_t kMaxGoneNames = 4096;

// One thread at a time. Never calls the streams.
class ResumableIndex {
 public:
  explicit ResumableIndex(const ResumableOptions& options) : options_(options) {}

  // Adds a stream that runs from now on; `bytes` is its memory beyond kResumableStreamBytes.
  // kAlreadyExists: the name is in use. kResourceExhausted: there is no room, even after ended
  // streams were dropped.
  absl::Status add(const ResumableName& name, std::shared_ptr<ResumableStream> stream,
                   int64_t bytes);
  // Removes a stream that never began.
  void remove(const ResumableName& name);
  // The stream needs `bytes` more. kResourceExhausted: see add(); nothing was counted.
  absl::Status grow(const ResumableName& name, int64_t bytes);
  // The stream has ended. It is kept for after_end_ms, or until others need its bytes. Only owners
  // with more than an equal share of max_bytes lose streams; among their streams, the one that
  // ended first is dropped first.
  void end(const ResumableName& name, int64_t now_ms);
  // Drops the streams whose time is over.
  void tick(int64_t now_ms);

  // kNotFound: the owner has no such stream. kOutOfRange: it is no longer kept.
  absl::StatusOr<std::shared_ptr<ResumableStream>> find(const ResumableName& name) const;
  // When tick() is due; nullopt: no stream has ended.
  std::optional<int64_t> wake_at() const;
  // The streams dropped since the last call.
  std::vector<std::shared_ptr<ResumableStream>> take_dropped();
  const ResumableCounts& counts() const { return counts_; }

 private:
  struct Entry {
    std::shared_ptr<ResumableStream> stream;
    int64_t bytes = 0;
  };
  struct End {
    std::string id;
    int64_t trim_ms = 0;
  };
  // An owner of at least one stream.
  struct Owner {
    int64_t streams = 0;
    int64_t bytes = 0;
    std::deque<End> ends;  // Its ended streams, in the order of their ends.
  };
  using Owners = std::map<std::string, Owner>;

  void count(const std::string& owner, int64_t streams, int64_t bytes);
  absl::Status make_room(const std::string& owner, int64_t bytes);
  // The owner of the stream that ended first, among owners with more than `share` bytes. The owner
  // `wanting` counts with `wanted` bytes more. end(): none.
  Owners::iterator oldest_end_beyond(int64_t share, const std::string& wanting, int64_t wanted);
  void drop_oldest_end(Owners::iterator owner);
  void remember_gone(const ResumableName& name);

  const ResumableOptions options_;
  ResumableCounts counts_;
  std::map<ResumableName, Entry> entries_;
  Owners owners_;
  std::list<ResumableName> gone_;  // The oldest is first.
  std::map<ResumableName, std::list<ResumableName>::iterator> gone_by_name_;
  std::vector<std::shared_ptr<ResumableStream>> dropped_;
};

}  // namespace lockstep
