// SPDX-License-Identifier: Apache-2.0
// Which KV pages every sequence has, as the steps of an epoch said: a Step names new pages only.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "proto/cluster.pb.h"
#include "proto/program.pb.h"
#include "worker/steps/state_room.h"

namespace lockstep {

// One thread at a time.
class PageTables {
 public:
  // Of an epoch: no slot has a sequence. Page ids and slots are below `room`'s. Where layers have
  // state blocks, nothing that another sequence computed can stand for a sequence's first
  // positions: it begins at 0.
  PageTables(const program::Limits& limits, const StateRoom& room, bool begins_at_zero);

  // kInvalidArgument: `step` does not follow the last one, or one of its sequences does not follow
  // what its slot has; names the sequence, the field, what was wanted and found. Changes nothing.
  absl::Status check(const cluster::Step& step) const;
  // Of a step that passed check().
  void take(const cluster::Step& step);
  // In order of positions; valid until the next take().
  std::span<const int32_t> of(int32_t slot) const {
    return slots_[static_cast<size_t>(slot)].pages;
  }
  // No sequence had a page with this id or a higher one.
  int32_t pages_used() const { return pages_used_; }

 private:
  struct Slot {
    std::vector<int32_t> pages;
    int64_t positions = 0;    // That were computed,
    int64_t rope_length = 0;  // and turned by the frequencies of this length,
    int64_t prefix_rows = 0;  // these among them at once.
  };
  absl::Status check_sequence(const cluster::Step& step, int index) const;
  absl::Status check_prefix(const cluster::Step& step, int index) const;

  const int64_t context_;
  const int64_t page_tokens_;
  const int64_t pages_;
  const bool begins_at_zero_;
  std::optional<uint64_t> last_step_;
  std::vector<Slot> slots_;
  int32_t pages_used_ = 0;
};

}  // namespace lockstep
