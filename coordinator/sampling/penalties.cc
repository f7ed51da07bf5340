// SPDX-License-Identifier: Apache-2.0
// Counts by token id in one ascending vector: an append is a binary search, and reading is in the
// order of the wire.
#include "coordinator/sampling/penalties.h"

#include <algorithm>

namespace lockstep {
namespace {

// Added to what must not be drawn. Finite, so that a block of nothing else keeps finite sums, and
// so that its quotient by the least temperature is still a float.
constexpr float kForbidden = -1e30f;

}  // namespace

Penalties::Penalties(const SamplingParams& params, std::span<const int32_t> prompt,
                     std::span<const int32_t> stop_ids, int64_t vocab)
    : params_(params),
      vocab_(vocab),
      counting_(params.repetition_penalty != 1 || params.presence_penalty != 0 ||
                params.frequency_penalty != 0) {
  std::vector<int32_t> ids(stop_ids.begin(), stop_ids.end());
  if (params.repetition_penalty != 1) ids.insert(ids.end(), prompt.begin(), prompt.end());
  for (const auto& [id, bias] : params.logit_bias) ids.push_back(id);
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  for (const int32_t id : ids) {
    if (0 <= id && id < vocab_) entries_.push_back({.id = id});
  }
  const auto mark = [this](int32_t id, auto change) {
    if (0 <= id && id < vocab_) change(entry_of(id));
  };
  for (const int32_t id : stop_ids) mark(id, [](Entry& entry) { entry.stop = true; });
  for (const auto& [id, bias] : params.logit_bias) {
    mark(id, [value = bias](Entry& entry) { entry.bias = value; });
  }
  if (params.repetition_penalty == 1) return;
  for (const int32_t id : prompt) mark(id, [](Entry& entry) { entry.seen = true; });
}

Penalties::Entry& Penalties::entry_of(int32_t id) {
  auto place =
      std::lower_bound(entries_.begin(), entries_.end(), id,
                       [](const Entry& entry, int32_t wanted) { return entry.id < wanted; });
  if (place == entries_.end() || place->id != id) place = entries_.insert(place, {.id = id});
  return *place;
}

void Penalties::append(int32_t id) {
  if (!counting_) return;
  Entry& entry = entry_of(id);
  entry.seen = true;
  ++entry.generated;
}

void Penalties::fill(bool forbid_stops, cluster::Output* output) const {
  for (const Entry& entry : entries_) {
    const double add = static_cast<double>(entry.bias) -
                       (entry.generated > 0 ? params_.presence_penalty : 0.0) -
                       static_cast<double>(params_.frequency_penalty) * entry.generated;
    const bool forbidden = forbid_stops && entry.stop;
    const bool repeated = entry.seen && params_.repetition_penalty != 1;
    if (!forbidden && !repeated && add == 0) continue;
    cluster::LogitEdit* edit = output->add_edits();
    edit->set_id(entry.id);
    edit->set_repetition(repeated ? params_.repetition_penalty : 1);
    edit->set_add(forbidden ? kForbidden : static_cast<float>(add));
  }
}

}  // namespace lockstep
