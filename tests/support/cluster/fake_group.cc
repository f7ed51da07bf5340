// SPDX-License-Identifier: Apache-2.0
// A toy model with real paging, split over any number of ranks.
#include "tests/support/cluster/fake_group.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/numbers/math.h"
#include "base/status.h"
#include "operators/limits.h"
#include "proto/block_sums.h"
#include "proto/logit_edits.h"

namespace lockstep {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

uint64_t mix(uint64_t x) {  // splitmix64 (Steele et al., 2014).
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

bool allowed(const std::string& mask, int64_t id) {
  return mask.empty() ||
         ((static_cast<unsigned char>(mask[static_cast<size_t>(id / 8)]) >> (id % 8)) & 1) != 0;
}

void set(cluster::Candidate* candidate, int64_t id, float logit, float edited, float noisy) {
  candidate->set_id(static_cast<int32_t>(id));
  candidate->set_logit(logit);
  candidate->set_edited(edited);
  candidate->set_noisy(noisy);
}

// Adds the logits of requested ids in the slice [begin, end), and all logits of the slice if the
// output requests them.
void add_logits(const cluster::Output& output, const std::vector<float>& logits, int64_t begin,
                int64_t end, cluster::Candidates* answer) {
  for (const int32_t id : output.raw_ids()) {
    if (id < begin || id >= end) continue;
    answer->mutable_raw_logits()->add_ids(id);
    answer->mutable_raw_logits()->add_logits(logits[static_cast<size_t>(id)]);
  }
  if (!output.want_logits()) return;
  answer->set_logits(logits.data() + begin, static_cast<size_t>(end - begin) * sizeof(float));
}

BlockSum sum_of(const std::vector<float>& values) {
  float max = -kInfinity;
  for (const float value : values) {
    if (value > max) max = value;
  }
  float sum = 0;
  for (const float value : values) {
    if (!(value > -kInfinity)) continue;
    sum += value == max ? 1.0f : static_cast<float>(exact_exp(value - max));
  }
  return {max, sum};
}

}  // namespace

GroupInfo fake_info(const FakeModel& model, uint64_t epoch) {
  return {.epoch = epoch,
          .ranks = model.ranks,
          .pages = model.pages,
          .page_tokens = model.page_tokens,
          .max_rows = model.max_rows,
          .max_outputs = model.max_outputs,
          .max_sequences = model.slots(),
          .max_context = model.max_context,
          .shares_prefixes = model.blocks == 0,
          .rope = model.rope,
          .prefix = model.prefix,
          .vocab = model.vocab,
          .weight_bytes = 0,
          .numeric_class = "fake",
          .strategy = "none"};
}

std::vector<float> fake_logits(const FakeModel& model, const std::vector<int32_t>& history) {
  uint64_t state = mix(model.seed);
  for (const int32_t token : history) state = mix(state ^ static_cast<uint64_t>(token));
  std::vector<float> logits(static_cast<size_t>(model.vocab));
  if (!history.empty() && history[0] == model.poison) {
    logits.assign(logits.size(), std::numeric_limits<float>::quiet_NaN());
    return logits;
  }
  for (size_t id = 0; id < logits.size(); ++id) {
    const uint64_t bits = mix(state + id);
    // The logits are roughly bell-shaped in [-6, 6), so that top_p keeps few or many tokens.
    logits[id] = static_cast<float>((bits & 0xffff) + (bits >> 16 & 0xffff) +
                                    (bits >> 32 & 0xffff) + (bits >> 48)) /
                     (65536.0f / 3.0f) -
                 6.0f;
  }
  if (model.deadly >= 0) logits[static_cast<size_t>(model.deadly)] = -kInfinity;
  return logits;
}

std::vector<int64_t> fake_cuts(int64_t vocab, int ranks) {
  const int64_t blocks = (vocab + kVocabBlock - 1) / kVocabBlock;
  std::vector<int64_t> cuts = {0};
  int64_t last = 0;  // Counted in blocks.
  for (int rank = 1; rank < ranks; ++rank) {
    const int64_t even = blocks * rank / ranks;
    last = std::clamp(even + (rank % 2 == 0 ? 1 : -1), last, blocks);
    cuts.push_back(std::min(last * kVocabBlock, vocab));
  }
  cuts.push_back(vocab);
  return cuts;
}

cluster::Candidates fake_candidates(const cluster::Output& output, const std::vector<float>& logits,
                                    int64_t begin, int64_t end) {
  cluster::Candidates answer;
  struct Token {
    int64_t id;
    float logit, edited, noisy;
  };
  std::vector<Token> tokens;
  std::vector<float> raw_block, edited_block;
  std::vector<BlockSum> raw_sums, edited_sums;
  for (int64_t id = begin; id < end; ++id) {
    const float logit = logits[static_cast<size_t>(id)];
    float edited = logit;
    for (int i = 0; i < output.edits().ids_size(); ++i) {
      if (output.edits().ids(i) != id) continue;
      const float repetition = output.edits().repetition(i);
      edited = edited > 0 ? edited / repetition : edited * repetition;
      edited = edited + output.edits().add(i);
    }
    if (output.temperature() > 0) edited = edited / output.temperature();
    if (!allowed(output.mask(), id)) edited = -kInfinity;
    float noisy = edited;
    if (output.temperature() > 0 && output.want_noisy()) {
      noisy += gumbel_noise(output.seed(), output.position(), static_cast<int32_t>(id));
    }
    tokens.push_back({id, logit, edited, noisy});
    raw_block.push_back(logit);
    edited_block.push_back(edited);
    if ((id + 1) % kVocabBlock != 0 && id + 1 != end) continue;
    raw_sums.push_back(sum_of(raw_block));
    edited_sums.push_back(sum_of(edited_block));
    raw_block.clear();
    edited_block.clear();
  }
  if (output.want_raw_sums()) set_sums(begin / kVocabBlock, raw_sums, answer.mutable_raw_sums());
  if (output.want_edited_sums()) {
    set_sums(begin / kVocabBlock, edited_sums, answer.mutable_edited_sums());
  }
  const auto best_by = [&](float Token::*value, int64_t count, auto add) {
    std::vector<Token> sorted = tokens;
    std::erase_if(sorted, [&](const Token& token) { return !(token.*value > -kInfinity); });
    std::stable_sort(sorted.begin(), sorted.end(),
                     [&](const Token& a, const Token& b) { return a.*value > b.*value; });
    sorted.resize(std::min(sorted.size(), static_cast<size_t>(count)));
    for (const Token& token : sorted) add(token);
  };
  const auto list = [](cluster::CandidateList* to, const Token& token) {
    to->add_ids(static_cast<int32_t>(token.id));
    to->add_logits(token.logit);
  };
  if (output.top_count() > 0) {
    best_by(&Token::edited, output.top_count(), [&](const Token& token) {
      list(answer.mutable_top(), token);
      answer.mutable_top()->add_edited(token.edited);
    });
  }
  if (output.raw_top_count() > 0) {
    best_by(&Token::logit, output.raw_top_count(),
            [&](const Token& token) { list(answer.mutable_raw_top(), token); });
  }
  if (output.want_noisy()) {
    best_by(&Token::noisy, 1, [&](const Token& token) {
      set(answer.mutable_noisy(), token.id, token.logit, token.edited, token.noisy);
    });
  }
  add_logits(output, logits, begin, end, &answer);
  return answer;
}

FakeWorkers::FakeWorkers(const FakeModel& model)
    : model_(model),
      cuts_(fake_cuts(model.vocab, model.ranks)),
      slots_(static_cast<size_t>(model.pages * model.page_tokens)),
      tables_(static_cast<size_t>(model.slots())),
      page_written_in_(static_cast<size_t>(model.pages)),
      page_read_in_(static_cast<size_t>(model.pages)) {}

// Checks all of a sequence's pages in every step, also those that the step does not name. Sequences
// may share a page if none of them writes to it.
absl::Status FakeWorkers::take_pages(const cluster::StepSequence& sequence) {
  if (sequence.slot() < 0 || sequence.slot() >= static_cast<int32_t>(tables_.size())) {
    return absl::InternalError("lie: no such slot");
  }
  std::vector<int32_t>& table = tables_[static_cast<size_t>(sequence.slot())];
  if (sequence.begins()) table.clear();
  if (sequence.begins() && model_.blocks > 0 && sequence.first_position() > 0) {
    return absl::InternalError("lie: a state block that was never computed");
  }
  const int64_t prefix_rows = sequence.prefix_rows(), first = sequence.first_position();
  if (first < prefix_rows && (first > 0 || sequence.rows() < prefix_rows)) {
    return absl::InternalError("lie: a prefix in two steps");
  }
  table.insert(table.end(), sequence.pages().begin(), sequence.pages().end());
  const auto behind = static_cast<size_t>(sequence.first_position() / model_.page_tokens);
  for (size_t i = 0; i < table.size(); ++i) {
    if (table[i] < 0 || table[i] >= model_.pages) return absl::InternalError("lie: no such page");
    const auto page = static_cast<size_t>(table[i]);
    const bool written = page_written_in_[page] == runs_;
    if (written || (i >= behind && page_read_in_[page] == runs_)) {
      return absl::InternalError("lie: a page in two places");
    }
    (i >= behind ? page_written_in_ : page_read_in_)[page] = runs_;
  }
  const int64_t end = sequence.first_position() + sequence.rows();
  if (static_cast<int64_t>(table.size()) * model_.page_tokens >= end) return absl::OkStatus();
  return absl::InternalError("lie: too few pages");
}

// Checks that the step's rotary frequencies are not those of a shorter sequence.
absl::Status FakeWorkers::check_frequencies(const cluster::StepSequence& sequence) const {
  const int64_t tokens = sequence.first_position() + sequence.rows();
  const int frequencies = model_.rope.frequencies(sequence.rope_length());
  if (model_.rope.of_prompt || frequencies >= model_.rope.frequencies(tokens)) {
    return absl::OkStatus();
  }
  return absl::InternalError("lie: frequencies of a shorter sequence");
}

absl::Status FakeWorkers::write(const cluster::Step& step) {
  int64_t row = 0;
  for (const cluster::StepSequence& sequence : step.sequences()) {
    const int64_t end = sequence.first_position() + sequence.rows();
    if (sequence.rows() <= 0) return absl::InternalError("lie: a sequence without rows");
    if (end > model_.max_context) return absl::InternalError("lie: beyond the context");
    RETURN_IF_ERROR(take_pages(sequence));
    RETURN_IF_ERROR(check_frequencies(sequence));
    const std::vector<int32_t>& table = tables_[static_cast<size_t>(sequence.slot())];
    for (int64_t position = sequence.first_position(); position < end; ++position, ++row) {
      if (row >= step.tokens_size()) return absl::InternalError("lie: fewer tokens than rows");
      const int64_t page = table[static_cast<size_t>(position / model_.page_tokens)];
      const int32_t token = step.tokens(static_cast<int>(row));
      if (token < 0 || token >= model_.vocab) return absl::InternalError("lie: no such token");
      slots_[static_cast<size_t>(page * model_.page_tokens + position % model_.page_tokens)] = {
          position, token, model_.rope.frequencies(sequence.rope_length())};
    }
  }
  return row == step.tokens_size() ? absl::OkStatus()
                                   : absl::InternalError("lie: more tokens than rows");
}

// All tokens up to and including a position, as the pages store them.
absl::StatusOr<std::vector<int32_t>> FakeWorkers::read(const cluster::StepSequence& sequence,
                                                       int64_t position) const {
  const std::vector<int32_t>& table = tables_[static_cast<size_t>(sequence.slot())];
  std::vector<int32_t> tokens;
  for (int64_t p = 0; p <= position; ++p) {
    const int64_t page = table[static_cast<size_t>(p / model_.page_tokens)];
    const Slot& slot =
        slots_[static_cast<size_t>(page * model_.page_tokens + p % model_.page_tokens)];
    if (slot.position != p) return absl::InternalError("lie: KV that was never written");
    if (slot.frequencies != model_.rope.frequencies(sequence.rope_length())) {
      return absl::InternalError("lie: keys that were rotated by other frequencies");
    }
    tokens.push_back(slot.token);
  }
  return tokens;
}

absl::Status FakeWorkers::check_output(const cluster::Step& step, int index) const {
  const cluster::Output& output = step.outputs(index);
  if (output.row() < 0 || output.row() >= step.tokens_size()) {
    return absl::InternalError("lie: no such row");
  }
  if (index > 0 && step.outputs(index - 1).row() >= output.row()) {
    return absl::InternalError("lie: output rows don't ascend");
  }
  if (output.shared_edits() < 0 || output.shared_edits() > step.shared_edits_size()) {
    return absl::InternalError("lie: no such shared edits");
  }
  const auto ascending = [&](const cluster::LogitEdits& edits) {
    const auto& ids = edits.ids();
    return std::ranges::is_sorted(ids, std::ranges::less_equal()) &&
           (ids.empty() || (ids[0] >= 0 && ids[ids.size() - 1] < model_.vocab));
  };
  if (!ascending(output.edits()) || !ascending(shared_edits_of(step, output))) {
    return absl::InternalError("lie: edits don't ascend");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<cluster::StepResult>> FakeWorkers::run(const cluster::Step& step) {
  return run(step, 0, model_.ranks);
}

absl::StatusOr<cluster::StepResult> FakeWorkers::run_rank(const cluster::Step& step, int rank) {
  ASSIGN_OR_RETURN(std::vector<cluster::StepResult> results, run(step, rank, rank + 1));
  return std::move(results[0]);
}

absl::StatusOr<std::vector<cluster::StepResult>> FakeWorkers::run(const cluster::Step& step,
                                                                  int first, int last) {
  ++runs_;
  if (last_step_.has_value() && step.step() != *last_step_ + 1) {
    return absl::InternalError("lie: not the next step");
  }
  last_step_ = step.step();
  if (step.tokens_size() > model_.max_rows || step.outputs_size() > model_.max_outputs ||
      step.sequences_size() > model_.max_sequences) {
    return absl::InternalError("lie: more than the limits allow");
  }
  RETURN_IF_ERROR(write(step));
  last_logits_.clear();
  std::vector<cluster::StepResult> results(static_cast<size_t>(last - first));
  for (cluster::StepResult& result : results) result.set_step(step.step());
  int64_t first_row = 0;
  int sequence = 0;
  for (int i = 0; i < step.outputs_size(); ++i) {
    RETURN_IF_ERROR(check_output(step, i));
    while (first_row + step.sequences(sequence).rows() <= step.outputs(i).row()) {
      first_row += step.sequences(sequence++).rows();
    }
    const int64_t position =
        step.sequences(sequence).first_position() + step.outputs(i).row() - first_row;
    ASSIGN_OR_RETURN(const std::vector<int32_t> history, read(step.sequences(sequence), position));
    last_logits_.push_back(fake_logits(model_, history));
    const cluster::Output output = with_shared_edits(step, step.outputs(i));
    for (int rank = first; rank < last; ++rank) {
      const size_t slice = static_cast<size_t>(rank);
      *results[slice - static_cast<size_t>(first)].add_outputs() =
          fake_candidates(output, last_logits_.back(), cuts_[slice], cuts_[slice + 1]);
    }
  }
  return results;
}

absl::StatusOr<std::vector<float>> FakeWorkers::logits(uint64_t step, int output) const {
  if (step != last_step_ || output < 0 || output >= static_cast<int>(last_logits_.size())) {
    return absl::InternalError("lie: logits of another step");
  }
  return last_logits_[static_cast<size_t>(output)];
}

absl::StatusOr<std::vector<float>> FakeWorkers::logits_of_rank(uint64_t step, int output,
                                                               int rank) const {
  ASSIGN_OR_RETURN(const std::vector<float> all, logits(step, output));
  const size_t slice = static_cast<size_t>(rank);
  return std::vector<float>(all.begin() + cuts_[slice], all.begin() + cuts_[slice + 1]);
}

}  // namespace lockstep
