// SPDX-License-Identifier: Apache-2.0
#include "coordinator/streams/resumable_index.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "base/check.h"
#include "base/status.h"
#include "coordinator/streams/event_log.h"

namespace lockstep {
namespace {

constexpr size_t kMaxIdBytes = 128;

}  // namespace

absl::Status check_resumable_id(std::string_view id) {
  const auto belongs = [](char c) {
    return absl::ascii_isalnum(c) || std::string_view("-_.:~").find(c) != std::string_view::npos;
  };
  if (!id.empty() && id.size() <= kMaxIdBytes && absl::ascii_isalnum(id[0]) &&
      std::ranges::all_of(id, belongs)) {
    return absl::OkStatus();
  }
  return invalid_argument(
      "request_id: must be 1 to {} letters, digits and -_.:~, the first a letter or digit, for a "
      "resumable request, found {}",
      kMaxIdBytes, printable(id.substr(0, kMaxIdBytes)));
}

absl::Status ResumableIndex::add(const ResumableName& name, std::shared_ptr<ResumableStream> stream,
                                 int64_t bytes) {
  if (entries_.contains(name)) {
    return absl::AlreadyExistsError(
        fmt::format("request_id: {} is the name of a kept stream", name.id));
  }
  bytes += kResumableStreamBytes;
  RETURN_IF_ERROR(make_room(name.owner, bytes));
  if (const auto gone = gone_by_name_.find(name); gone != gone_by_name_.end()) {
    gone_.erase(gone->second);
    gone_by_name_.erase(gone);
  }
  entries_.emplace(name, Entry{.stream = std::move(stream), .bytes = bytes});
  count(name.owner, 1, bytes);
  return absl::OkStatus();
}

void ResumableIndex::count(const std::string& owner, int64_t streams, int64_t bytes) {
  counts_.streams += streams;
  counts_.bytes += bytes;
  const auto found = owners_.try_emplace(owner).first;
  found->second.streams += streams;
  found->second.bytes += bytes;
  if (found->second.streams == 0) owners_.erase(found);
}

void ResumableIndex::remove(const ResumableName& name) {
  const auto entry = entries_.find(name);
  LOCKSTEP_CHECK(entry != entries_.end());
  count(name.owner, -1, -entry->second.bytes);
  entries_.erase(entry);
}

absl::Status ResumableIndex::grow(const ResumableName& name, int64_t bytes) {
  RETURN_IF_ERROR(make_room(name.owner, bytes));
  entries_.at(name).bytes += bytes;
  count(name.owner, 0, bytes);
  return absl::OkStatus();
}

void ResumableIndex::end(const ResumableName& name, int64_t now_ms) {
  LOCKSTEP_CHECK(entries_.contains(name));
  owners_.at(name.owner).ends.push_back({.id = name.id, .trim_ms = now_ms + options_.after_end_ms});
}

void ResumableIndex::tick(int64_t now_ms) {
  for (auto owner = owners_.begin(); owner != owners_.end();) {
    const auto next = std::next(owner);
    const std::deque<End>& ends = owner->second.ends;
    // The owner is deleted with its last stream.
    for (int64_t left = std::ssize(ends); left > 0 && ends.front().trim_ms <= now_ms; --left) {
      drop_oldest_end(owner);
    }
    owner = next;
  }
}

absl::StatusOr<std::shared_ptr<ResumableStream>> ResumableIndex::find(
    const ResumableName& name) const {
  if (const auto entry = entries_.find(name); entry != entries_.end()) return entry->second.stream;
  if (gone_by_name_.contains(name)) return event_log_is_gone();
  return absl::NotFoundError(
      fmt::format("there is no resumable stream {}", printable(name.id.substr(0, kMaxIdBytes))));
}

std::optional<int64_t> ResumableIndex::wake_at() const {
  std::optional<int64_t> first;
  for (const auto& [name, owner] : owners_) {
    if (owner.ends.empty()) continue;
    const int64_t trim_ms = owner.ends.front().trim_ms;
    first = std::min(first.value_or(trim_ms), trim_ms);
  }
  return first;
}

std::vector<std::shared_ptr<ResumableStream>> ResumableIndex::take_dropped() {
  return std::exchange(dropped_, {});
}

absl::Status ResumableIndex::make_room(const std::string& owner, int64_t bytes) {
  while (counts_.bytes + bytes > options_.max_bytes) {
    const int64_t owners = std::ssize(owners_) + (owners_.contains(owner) ? 0 : 1);
    const auto found = oldest_end_beyond(options_.max_bytes / owners, owner, bytes);
    if (found == owners_.end()) break;
    drop_oldest_end(found);
  }
  if (counts_.bytes + bytes <= options_.max_bytes) return absl::OkStatus();
  return resource_exhausted(
      "resumable streams that run, or that other keys may keep, use {} of the {} bytes of "
      "--resume-bytes, and this one needs {} more",
      counts_.bytes, options_.max_bytes, bytes);
}

ResumableIndex::Owners::iterator ResumableIndex::oldest_end_beyond(int64_t share,
                                                                   const std::string& wanting,
                                                                   int64_t wanted) {
  auto oldest = owners_.end();
  for (auto owner = owners_.begin(); owner != owners_.end(); ++owner) {
    const auto& [name, has] = *owner;
    if (has.ends.empty() || has.bytes + (name == wanting ? wanted : 0) <= share) continue;
    if (oldest == owners_.end() || has.ends.front().trim_ms < oldest->second.ends.front().trim_ms) {
      oldest = owner;
    }
  }
  return oldest;
}

void ResumableIndex::drop_oldest_end(Owners::iterator owner) {
  const ResumableName name = {.owner = owner->first,
                              .id = std::move(owner->second.ends.front().id)};
  owner->second.ends.pop_front();
  const auto entry = entries_.find(name);
  count(name.owner, -1, -entry->second.bytes);
  dropped_.push_back(std::move(entry->second.stream));
  remember_gone(name);
  entries_.erase(entry);
}

void ResumableIndex::remember_gone(const ResumableName& name) {
  gone_by_name_[name] = gone_.insert(gone_.end(), name);
  if (gone_.size() <= kMaxGoneNames) return;
  gone_by_name_.erase(gone_.front());
  gone_.pop_front();
}

}  // namespace lockstep
