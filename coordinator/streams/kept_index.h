// SPDX-License-Identifier: Apache-2.0
// The index of kept streams, which clients can resume by name, and of their memory. It has no
// thread, clock or lock: the caller passes the time.
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

class KeptStream;

// Two owners may use the same id.
struct KeptName {
  std::string owner;  // An API key's name; "" without keys: whoever knows the id.
  std::string id;     // The request's id.
  friend bool operator<(const KeptName& a, const KeptName& b) {
    return std::tie(a.owner, a.id) < std::tie(b.owner, b.id);
  }
};

// kInvalidArgument unless it can be a path segment: 1 to 128 letters, digits and -_.:~, the first
// of them a letter or digit.
absl::Status check_kept_id(std::string_view id);

struct KeptOptions {
  int64_t max_bytes = int64_t{256} << 20;  // For all streams.
  int64_t after_end_ms = 60'000;
};

struct KeptCounts {
  int64_t streams = 0;
  int64_t bytes = 0;
};

// A stream's cost besides its events and its request: names, locks, first blocks.
inline constexpr int64_t kKeptStreamBytes = 4096;
// How many names of dropped streams are remembered.
inline constexpr size_t kMaxGoneNames = 4096;

// One thread at a time. Never calls the streams.
class KeptIndex {
 public:
  explicit KeptIndex(const KeptOptions& options) : options_(options) {}

  // Adds a stream that runs from now on; `bytes` is its memory beyond kKeptStreamBytes.
  // kAlreadyExists: the name is in use. kResourceExhausted: there is no room, even without ended
  // streams.
  absl::Status add(const KeptName& name, std::shared_ptr<KeptStream> stream, int64_t bytes);
  // The stream never began.
  void remove(const KeptName& name);
  // The stream needs more. kResourceExhausted: as in add(); nothing was counted.
  absl::Status grow(const KeptName& name, int64_t bytes);
  // The stream is kept for after_end_ms, or until others need its room. Only owners with more than
  // an equal share of all room lose streams, the oldest end first.
  void end(const KeptName& name, int64_t now_ms);
  // Drops the streams whose time is over.
  void tick(int64_t now_ms);

  // kNotFound: the owner has no such stream. kOutOfRange: it is no longer kept.
  absl::StatusOr<std::shared_ptr<KeptStream>> find(const KeptName& name) const;
  // When tick() is due; nullopt: no stream has ended.
  std::optional<int64_t> wake_at() const;
  // The streams dropped since the last call.
  std::vector<std::shared_ptr<KeptStream>> take_dropped();
  const KeptCounts& counts() const { return counts_; }

 private:
  struct Entry {
    std::shared_ptr<KeptStream> stream;
    int64_t bytes = 0;
  };
  struct End {
    std::string id;
    int64_t trim_ms = 0;
  };
  // Every owner here has a stream.
  struct Owner {
    int64_t streams = 0;
    int64_t bytes = 0;
    std::deque<End> ends;  // Its ended streams, in the order of their ends.
  };
  using Owners = std::map<std::string, Owner>;

  void count(const std::string& owner, int64_t streams, int64_t bytes);
  absl::Status make_room(const std::string& owner, int64_t bytes);
  // Among owners with more than `share`, where `wanted` is added to `wanting`'s bytes; end(): none.
  Owners::iterator oldest_end_beyond(int64_t share, const std::string& wanting, int64_t wanted);
  void drop_oldest_end(Owners::iterator owner);
  void remember_gone(const KeptName& name);

  const KeptOptions options_;
  KeptCounts counts_;
  std::map<KeptName, Entry> entries_;
  Owners owners_;
  std::list<KeptName> gone_;  // The oldest is first.
  std::map<KeptName, std::list<KeptName>::iterator> gone_by_name_;
  std::vector<std::shared_ptr<KeptStream>> dropped_;
};

}  // namespace lockstep
