// SPDX-License-Identifier: Apache-2.0
// Converts a Batch to a Step: the rows of all sequences one after the other, without padding, and
// only pages that workers do not know yet.
#include "coordinator/scheduler/batch.h"

#include <algorithm>
#include <span>
#include <string>

#include "absl/container/flat_hash_map.h"

namespace lockstep {

namespace {

// The lists of Step.shared_edits: one for each request that has such edits.
class SharedEdits {
 public:
  explicit SharedEdits(cluster::Step* step) : step_(*step) {}

  // The value of Output.shared_edits for a choice of the request with these rules.
  int32_t number_of(const LogitRules& rules) {
    if (rules.shared_edits().ids().empty()) return 0;
    const auto [found, is_new] = numbers_.try_emplace(&rules, step_.shared_edits_size() + 1);
    if (is_new) *step_.add_shared_edits() = rules.shared_edits();
    return found->second;
  }

 private:
  cluster::Step& step_;
  absl::flat_hash_map<const LogitRules*, int32_t> numbers_;
};

// Appends the request's embeddings for those of rows [begin, begin + rows) that have the id -1.
void add_embeddings(const EngineRequest& request, int64_t begin, int64_t rows, std::string* to) {
  const std::span<const int32_t> ids = request.prompt_ids;
  const auto length = static_cast<int64_t>(ids.size());
  if (request.prompt_embeds.empty() || begin >= length) return;
  const auto given = [&](int64_t end) {
    return std::ranges::count(ids.first(static_cast<size_t>(std::min(end, length))), -1);
  };
  const auto before = given(begin), own = given(begin + rows) - before;
  const auto hidden = static_cast<int64_t>(request.prompt_embeds.size()) / given(length);
  to->append(reinterpret_cast<const char*>(request.prompt_embeds.data() + before * hidden),
             static_cast<size_t>(own * hidden) * sizeof(float));
}

}  // namespace

cluster::Step make_step(const Batch& batch, uint64_t step) {
  cluster::Step message;
  message.set_step(step);
  message.mutable_tokens()->Reserve(static_cast<int>(batch.rows));
  SharedEdits shared(&message);
  for (Sequence* const scheduled : batch.sequences) {
    Sequence& sequence = *scheduled;
    const int64_t begin = sequence.computed(), count = sequence.planned();
    cluster::StepSequence* rows = message.add_sequences();
    rows->set_rows(count);
    rows->set_first_position(begin);
    rows->set_slot(sequence.slot());
    rows->set_rope_length(sequence.rope_length());
    rows->set_prefix_rows(sequence.prepared().prefix().rows);
    rows->set_held_position(sequence.prepared().prefix().held_position);
    rows->set_begins(!sequence.pages_sent().has_value());
    const auto known = static_cast<int64_t>(sequence.pages_sent().value_or(0));
    rows->mutable_pages()->Add(sequence.pages().begin() + known, sequence.pages().end());
    sequence.note_sent();
    for (int64_t i = 0; i < count; ++i) message.add_tokens(sequence.token(begin + i));
    add_embeddings(sequence.request(), begin, count, message.mutable_embeddings());
    for (int64_t wanted = sequence.wanted_rows(begin, count); wanted > 0; --wanted) {
      const int64_t position = begin + count - wanted;
      cluster::Output output = sequence.plan_at(position);
      output.set_row(message.tokens_size() - wanted);
      if (sequence.draws() && position == sequence.length() - 1) {
        output.set_shared_edits(shared.number_of(sequence.prepared().rules()));
      }
      *message.add_outputs() = std::move(output);
    }
  }
  return message;
}

}  // namespace lockstep
