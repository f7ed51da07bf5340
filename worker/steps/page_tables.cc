// SPDX-License-Identifier: Apache-2.0
#include "worker/steps/page_tables.h"

#include <algorithm>

#include "base/status.h"
#include "operators/limits.h"

namespace lockstep {

PageTables::PageTables(const program::Limits& limits, const StateRoom& room, bool begins_at_zero)
    : context_(limits.context()),
      page_tokens_(limits.page_tokens()),
      pages_(room.pages),
      begins_at_zero_(begins_at_zero),
      slots_(static_cast<size_t>(std::min(limits.sequences(), room.sequences))) {}

absl::Status PageTables::check(const cluster::Step& step) const {
  if (last_step_.has_value() && step.step() != *last_step_ + 1) {
    return invalid_argument("step {}: must be the one after step {}", step.step(), *last_step_);
  }
  std::vector<bool> used(slots_.size());
  for (int i = 0; i < step.sequences_size(); ++i) {
    RETURN_IF_ERROR(check_sequence(step, i));
    const size_t slot = static_cast<size_t>(step.sequences(i).slot());
    if (used[slot]) {
      return invalid_argument("step {}: sequence {}: slot {} has another sequence in this step",
                              step.step(), i, slot);
    }
    used[slot] = true;
  }
  return absl::OkStatus();
}

absl::Status PageTables::check_sequence(const cluster::Step& step, int index) const {
  const cluster::StepSequence& sequence = step.sequences(index);
  const auto fail = [&](const char* field, int64_t min, int64_t max, int64_t found) {
    return invalid_argument("step {}: sequence {}: {} must be {} to {}, found {}", step.step(),
                            index, field, min, max, found);
  };
  const int64_t slots = static_cast<int64_t>(slots_.size());
  if (sequence.slot() < 0 || sequence.slot() >= slots) {
    return fail("slot", 0, slots - 1, sequence.slot());
  }
  const Slot& slot = slots_[static_cast<size_t>(sequence.slot())];
  const int64_t first = sequence.first_position();
  if (first < 0 || first > context_ - sequence.rows()) {
    return fail("first_position", 0, context_ - sequence.rows(), first);
  }
  if (sequence.begins() && begins_at_zero_ && first != 0) {
    return fail("first_position", 0, 0, first);
  }
  if (!sequence.begins() && first != slot.positions) {
    return fail("first_position", slot.positions, slot.positions, first);
  }
  const int64_t min = sequence.begins() ? 0 : slot.rope_length;
  const int64_t max = sequence.begins() ? kMaxContext : slot.rope_length;
  if (sequence.rope_length() < min || sequence.rope_length() > max) {
    return fail("rope_length", min, max, sequence.rope_length());
  }
  RETURN_IF_ERROR(check_prefix(step, index));
  const int64_t held = sequence.begins() ? 0 : static_cast<int64_t>(slot.pages.size());
  const auto pages_of = [&](int64_t positions) {
    return (positions + page_tokens_ - 1) / page_tokens_;
  };
  const int64_t needed = std::max<int64_t>(pages_of(first + sequence.rows()) - held, 0);
  const int64_t room = pages_of(context_) - held;
  if (sequence.pages_size() < needed || sequence.pages_size() > room) {
    return fail("number of new pages", needed, room, sequence.pages_size());
  }
  for (const int32_t page : sequence.pages()) {
    if (page < 0 || page >= pages_) return fail("page", 0, pages_ - 1, page);
  }
  return absl::OkStatus();
}

// Rows that see one another are computed in one step, so that keys are stored before they are read.
absl::Status PageTables::check_prefix(const cluster::Step& step, int index) const {
  const cluster::StepSequence& sequence = step.sequences(index);
  const int64_t rows = sequence.prefix_rows();
  int64_t min = 0, max = sequence.rows();
  if (!sequence.begins()) min = max = slots_[static_cast<size_t>(sequence.slot())].prefix_rows;
  if (sequence.begins() && sequence.first_position() > 0) max = 0;
  if (rows < min || rows > max) {
    return invalid_argument("step {}: sequence {}: prefix_rows must be {} to {}, found {}",
                            step.step(), index, min, max, rows);
  }
  if (0 <= sequence.held_position() && sequence.held_position() < context_) return absl::OkStatus();
  return invalid_argument("step {}: sequence {}: held_position must be 0 to {}, found {}",
                          step.step(), index, context_ - 1, sequence.held_position());
}

void PageTables::take(const cluster::Step& step) {
  last_step_ = step.step();
  for (const cluster::StepSequence& sequence : step.sequences()) {
    Slot& slot = slots_[static_cast<size_t>(sequence.slot())];
    if (sequence.begins()) slot.pages.clear();
    slot.pages.insert(slot.pages.end(), sequence.pages().begin(), sequence.pages().end());
    for (const int32_t page : sequence.pages()) pages_used_ = std::max(pages_used_, page + 1);
    slot.rope_length = sequence.rope_length();
    slot.prefix_rows = sequence.prefix_rows();
    slot.positions = sequence.first_position() + sequence.rows();
  }
}

}  // namespace lockstep
