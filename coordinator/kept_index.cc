// SPDX-License-Identifier: Apache-2.0
#include "coordinator/kept_index.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "base/check.h"
#include "base/status.h"
#include "coordinator/kept_log.h"

namespace lockstep {
namespace {

constexpr size_t kMaxIdBytes = 128;

}  // namespace

absl::Status check_kept_id(std::string_view id) {
  const auto belongs = [](char c) {
    return absl::ascii_isalnum(c) || std::string_view("-_.:~").find(c) != std::string_view::npos;
  };
  if (!id.empty() && id.size() <= kMaxIdBytes && absl::ascii_isalnum(id[0]) &&
      std::ranges::all_of(id, belongs)) {
    return absl::OkStatus();
  }
  return invalid_argument(
      "request_id: of a resumable request want 1 to {} letters, digits and -_.:~, the first a "
      "letter or digit, found {}",
      kMaxIdBytes, printable(id.substr(0, kMaxIdBytes)));
}

absl::Status KeptIndex::add(const KeptName& name, std::shared_ptr<KeptStream> stream,
                            int64_t bytes) {
  if (entries_.contains(name)) {
    return absl::AlreadyExistsError(
        fmt::format("request_id: {} is the name of a stream that is kept", name.id));
  }
  bytes += kKeptStreamBytes;
  RETURN_IF_ERROR(make_room(bytes));
  if (const auto gone = gone_by_name_.find(name); gone != gone_by_name_.end()) {
    gone_.erase(gone->second);
    gone_by_name_.erase(gone);
  }
  entries_.emplace(name, Entry{.stream = std::move(stream), .bytes = bytes});
  counts_.bytes += bytes;
  ++counts_.streams;
  return absl::OkStatus();
}

void KeptIndex::remove(const KeptName& name) {
  const auto entry = entries_.find(name);
  LOCKSTEP_CHECK(entry != entries_.end());
  counts_.bytes -= entry->second.bytes;
  --counts_.streams;
  entries_.erase(entry);
}

absl::Status KeptIndex::grow(const KeptName& name, int64_t bytes) {
  RETURN_IF_ERROR(make_room(bytes));
  entries_.at(name).bytes += bytes;
  counts_.bytes += bytes;
  return absl::OkStatus();
}

void KeptIndex::end(const KeptName& name, int64_t now_ms) {
  LOCKSTEP_CHECK(entries_.contains(name));
  ends_.push_back({.name = name, .trim_ms = now_ms + options_.after_end_ms});
}

void KeptIndex::tick(int64_t now_ms) {
  while (!ends_.empty() && ends_.front().trim_ms <= now_ms) drop_oldest_end();
}

absl::StatusOr<std::shared_ptr<KeptStream>> KeptIndex::find(const KeptName& name) const {
  if (const auto entry = entries_.find(name); entry != entries_.end()) return entry->second.stream;
  if (gone_by_name_.contains(name)) return kept_log_is_gone();
  return absl::NotFoundError(
      fmt::format("there is no resumable stream {}", printable(name.id.substr(0, kMaxIdBytes))));
}

std::optional<int64_t> KeptIndex::wake_at() const {
  return ends_.empty() ? std::nullopt : std::optional(ends_.front().trim_ms);
}

std::vector<std::shared_ptr<KeptStream>> KeptIndex::take_dropped() {
  return std::exchange(dropped_, {});
}

absl::Status KeptIndex::make_room(int64_t bytes) {
  while (counts_.bytes + bytes > options_.max_bytes && !ends_.empty()) drop_oldest_end();
  if (counts_.bytes + bytes <= options_.max_bytes) return absl::OkStatus();
  return resource_exhausted(
      "resumable streams that run take {} of the {} bytes that --resume-bytes gives them, and this "
      "one needs {} more",
      counts_.bytes, options_.max_bytes, bytes);
}

void KeptIndex::drop_oldest_end() {
  const auto entry = entries_.find(ends_.front().name);
  ends_.pop_front();
  counts_.bytes -= entry->second.bytes;
  --counts_.streams;
  dropped_.push_back(std::move(entry->second.stream));
  remember_gone(entry->first);
  entries_.erase(entry);
}

void KeptIndex::remember_gone(const KeptName& name) {
  gone_by_name_[name] = gone_.insert(gone_.end(), name);
  if (gone_.size() <= kMaxGoneNames) return;
  gone_by_name_.erase(gone_.front());
  gone_.pop_front();
}

}  // namespace lockstep
