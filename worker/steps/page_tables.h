// SPDX-License-Identifier: Apache-2.0
// The KV pages of every sequence, collected from an epoch's steps: a Step names only new pages.
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

// For one thread at a time.
class PageTables {
 public:
  // For a new epoch: no slot has a sequence. Page ids and slots are below the numbers in `room`.
  // `begins_at_zero`: layers have state blocks, so no sequence can begin after pages that another
  // sequence computed.
  PageTables(const program::Limits& limits, const StateRoom& room, bool begins_at_zero);

  // kInvalidArgument: `step` does not follow the last one, or one of its sequences does not
  // continue the one in its slot. The message names the sequence and the field, what it must be and
  // what was found. Changes nothing.
  absl::Status check(const cluster::Step& step) const;
  // The step must have passed check().
  void take(const cluster::Step& step);
  // The pages of the sequence in a slot, in order of positions; valid until the next take().
  std::span<const int32_t> of(int32_t slot) const {
    return slots_[static_cast<size_t>(slot)].pages;
  }
  // One more than the highest page id in any step.
  int32_t pages_used() const { return pages_used_; }

 private:
  struct Slot {
    std::vector<int32_t> pages;
    int64_t positions = 0;    // The number of positions computed so far.
    int64_t rope_length = 0;  // Keys are rotated with the frequencies for this length.
    int64_t prefix_rows = 0;  // The first positions, which see one another.
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
