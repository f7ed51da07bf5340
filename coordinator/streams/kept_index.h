// SPDX-License-Identifier: Apache-2.0
// Which streams are kept so that clients can resume them, under which names, and what makes room
// for more. No thread, clock or lock is in here: who calls says what time it is.
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
  std::string owner;  // An API key's name; "" where there are no keys: whoever knows the id.
  std::string id;     // The request's.
  friend bool operator<(const KeptName& a, const KeptName& b) {
    return std::tie(a.owner, a.id) < std::tie(b.owner, b.id);
  }
};

// kInvalidArgument: it could not be a segment of a path. Want 1 to 128 letters, digits and -_.:~,
// the first of them a letter or digit.
absl::Status check_kept_id(std::string_view id);

struct KeptOptions {
  int64_t max_bytes = int64_t{256} << 20;  // Of all streams.
  int64_t after_end_ms = 60'000;
};

struct KeptCounts {
  int64_t streams = 0;
  int64_t bytes = 0;
};

// What a stream costs beside its events and what its request brings: names, locks, first blocks.
inline constexpr int64_t kKeptStreamBytes = 4096;
// Names of streams that are kept no more and are remembered as such.
inline constexpr size_t kMaxGoneNames = 4096;

// One thread at a time. Never calls the streams.
class KeptIndex {
 public:
  explicit KeptIndex(const KeptOptions& options) : options_(options) {}

  // A stream that runs from now on, of so many bytes beside kKeptStreamBytes. kAlreadyExists: the
  // name is another's. kResourceExhausted: there is no room, though what has ended made way.
  absl::Status add(const KeptName& name, std::shared_ptr<KeptStream> stream, int64_t bytes);
  // It never began.
  void remove(const KeptName& name);
  // It needs more. kResourceExhausted: as add(); nothing was counted.
  absl::Status grow(const KeptName& name, int64_t bytes);
  // It is kept for after_end_ms from now on, or until others need its room. Of owners that have
  // more than an equal share of all room, the oldest end goes first; nobody else's goes.
  void end(const KeptName& name, int64_t now_ms);
  // Lets go of those whose time is over.
  void tick(int64_t now_ms);

  // kNotFound: there is none of this owner. kOutOfRange: it is kept no more.
  absl::StatusOr<std::shared_ptr<KeptStream>> find(const KeptName& name) const;
  // When tick() has something to do; nothing: not before something ends.
  std::optional<int64_t> wake_at() const;
  // Those that are kept no more since this was last called.
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
  // It has a stream.
  struct Owner {
    int64_t streams = 0;
    int64_t bytes = 0;
    std::deque<End> ends;  // Of its streams that have ended, in this order.
  };
  using Owners = std::map<std::string, Owner>;

  void count(const std::string& owner, int64_t streams, int64_t bytes);
  absl::Status make_room(const std::string& owner, int64_t bytes);
  // Of those with more than `share`, `wanted` counted to what `wanting` has; end(): none.
  Owners::iterator oldest_end_beyond(int64_t share, const std::string& wanting, int64_t wanted);
  void drop_oldest_end(Owners::iterator owner);
  void remember_gone(const KeptName& name);

  const KeptOptions options_;
  KeptCounts counts_;
  std::map<KeptName, Entry> entries_;
  Owners owners_;
  std::list<KeptName> gone_;  // The oldest first.
  std::map<KeptName, std::list<KeptName>::iterator> gone_by_name_;
  std::vector<std::shared_ptr<KeptStream>> dropped_;
};

}  // namespace lockstep
