// SPDX-License-Identifier: Apache-2.0
// Converts messages to kernels' views. Tokens, masks and embeddings are read in place.
#include "worker/steps/step_view.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <span>
#include <string>

#include "base/check.h"
#include "base/status.h"
#include "proto/block_sums.h"
#include "proto/logit_edits.h"

namespace lockstep {
namespace {

static_assert(std::endian::native == std::endian::little, "messages carry little-endian numbers");

absl::Status check_tokens(const cluster::Step& step, const StepLimits& limits) {
  if (step.tokens_size() > limits.limits.rows()) {
    return invalid_argument("step {}: rows must be at most {}, found {}", step.step(),
                            limits.limits.rows(), step.tokens_size());
  }
  int64_t embedded = 0;
  for (int i = 0; i < step.tokens_size(); ++i) {
    const int32_t token = step.tokens(i);
    if (token < -1 || token >= limits.vocab) {
      return invalid_argument("step {}: token of row {} must be -1 to {}, found {}", step.step(), i,
                              limits.vocab - 1, token);
    }
    embedded += token == -1;
  }
  const int64_t wanted = embedded * limits.hidden * static_cast<int64_t>(sizeof(float));
  if (static_cast<int64_t>(step.embeddings().size()) == wanted) return absl::OkStatus();
  return invalid_argument("step {}: {} rows with token -1 need {} bytes of embeddings, found {}",
                          step.step(), embedded, wanted, step.embeddings().size());
}

absl::Status check_sequences(const cluster::Step& step, const StepLimits& limits) {
  if (step.sequences_size() > limits.limits.sequences()) {
    return invalid_argument("step {}: sequences must be at most {}, found {}", step.step(),
                            limits.limits.sequences(), step.sequences_size());
  }
  int64_t rows = 0;
  for (int i = 0; i < step.sequences_size(); ++i) {
    const int64_t own = step.sequences(i).rows();
    if (own < 1 || own > step.tokens_size()) {
      return invalid_argument("step {}: sequence {}: rows must be 1 to {}, found {}", step.step(),
                              i, step.tokens_size(), own);
    }
    rows += own;
  }
  if (rows == step.tokens_size()) return absl::OkStatus();
  return invalid_argument("step {}: rows of the sequences must add up to {} tokens, found {}",
                          step.step(), step.tokens_size(), rows);
}

// `place`: "output 3" or "shared edits 1".
absl::Status check_edits(const cluster::LogitEdits& edits, const std::string& place,
                         const cluster::Step& step, const StepLimits& limits) {
  if (edits.repetition_size() != edits.ids_size() || edits.add_size() != edits.ids_size()) {
    return invalid_argument("step {}: {}: edits must have {} numbers of each kind, found {}, {}",
                            step.step(), place, edits.ids_size(), edits.repetition_size(),
                            edits.add_size());
  }
  int64_t before = -1;
  for (int i = 0; i < edits.ids_size(); ++i) {
    const int32_t id = edits.ids(i);
    if (id <= before || id >= limits.vocab) {
      return invalid_argument("step {}: {}: edits must have ids ascending to {}, found {}",
                              step.step(), place, limits.vocab - 1, id);
    }
    before = id;
    const float repetition = edits.repetition(i);
    if (!(repetition > 0) || std::isinf(repetition) || std::isnan(edits.add(i))) {
      return invalid_argument("step {}: {}: edit of id {} must have valid numbers, found {}, {}",
                              step.step(), place, id, repetition, edits.add(i));
    }
  }
  return absl::OkStatus();
}

absl::Status check_output(const cluster::Step& step, int index, const StepLimits& limits) {
  const cluster::Output& output = step.outputs(index);
  const auto fail = [&](const char* what, auto found) {
    return invalid_argument("step {}: output {}: {}, found {}", step.step(), index, what, found);
  };
  const int64_t min = index == 0 ? 0 : step.outputs(index - 1).row();
  if (output.row() < min || output.row() >= step.tokens_size()) {
    return fail("row must be a row of the step, not before the last output's row", output.row());
  }
  if (!(output.temperature() >= 0) || std::isinf(output.temperature())) {
    return fail("temperature must be 0 or more", output.temperature());
  }
  if (output.top_count() < 0) return fail("top_count must be 0 or more", output.top_count());
  if (output.raw_top_count() < 0) {
    return fail("raw_top_count must be 0 or more", output.raw_top_count());
  }
  const size_t mask_bytes = (limits.vocab + 63) / 64 * sizeof(uint64_t);
  if (!output.mask().empty() && output.mask().size() != mask_bytes) {
    return fail("mask must be one bit per id in words of 64, or empty", output.mask().size());
  }
  for (const int32_t id : output.raw_ids()) {
    if (id < 0 || id >= limits.vocab) return fail("raw_ids must be in the vocabulary", id);
  }
  if (output.shared_edits() < 0 || output.shared_edits() > step.shared_edits_size()) {
    return fail("shared_edits must be 0 or a list of the step's", output.shared_edits());
  }
  return check_edits(output.edits(), fmt::format("output {}", index), step, limits);
}

void set_candidate(const Candidate& from, cluster::Candidate* to) {
  to->set_id(from.id);
  to->set_logit(from.logit);
  to->set_edited(from.edited);
  to->set_noisy(from.noisy);
}

void set_list(std::span<const Candidate> from, cluster::CandidateList* to) {
  const int count = static_cast<int>(from.size());
  to->mutable_ids()->Reserve(count);
  to->mutable_logits()->Reserve(count);
  for (const Candidate& candidate : from) {
    to->add_ids(candidate.id);
    to->add_logits(candidate.logit);
  }
}

// All of a row's logits are copied if some are needed: kernels cannot select.
bool wants_logits(const cluster::Output& output) {
  return output.want_logits() || output.raw_ids_size() > 0;
}

// The next `count` elements of a buffer that is large enough; null if `count` is 0.
template <typename T>
T* share(std::vector<T>& buffer, int64_t& taken, int64_t count) {
  if (count == 0) return nullptr;
  T* first = buffer.data() + taken;
  taken += count;
  LOCKSTEP_CHECK(taken <= static_cast<int64_t>(buffer.size()));
  return first;
}

template <typename T>
void grow(std::vector<T>& buffer, int64_t count) {
  if (count > static_cast<int64_t>(buffer.size())) buffer.resize(count);
}

}  // namespace

absl::Status check_step(const cluster::Step& step, const StepLimits& limits,
                        const PageTables& tables) {
  RETURN_IF_ERROR(check_tokens(step, limits));
  RETURN_IF_ERROR(check_sequences(step, limits));
  RETURN_IF_ERROR(tables.check(step));
  if (step.outputs_size() > limits.limits.outputs()) {
    return invalid_argument("step {}: outputs must be at most {}, found {}", step.step(),
                            limits.limits.outputs(), step.outputs_size());
  }
  for (int i = 0; i < step.shared_edits_size(); ++i) {
    RETURN_IF_ERROR(
        check_edits(step.shared_edits(i), fmt::format("shared edits {}", i), step, limits));
  }
  for (int i = 0; i < step.outputs_size(); ++i) RETURN_IF_ERROR(check_output(step, i, limits));
  return absl::OkStatus();
}

StepBuffers::StepBuffers(const StepLimits& limits)
    : columns_(limits.slice_columns),
      first_block_(limits.slice_begin / kVocabBlock),
      blocks_((limits.slice_columns + kVocabBlock - 1) / kVocabBlock) {
  positions_.resize(limits.limits.rows());
  sequence_of_row_.resize(limits.limits.rows());
  sequences_.resize(limits.limits.sequences());
  output_rows_.resize(limits.limits.outputs());
  requests_.resize(limits.limits.outputs());
}

StepView& StepBuffers::take(const cluster::Step& step, const PageTables& tables) {
  take_rows(step, tables);
  take_outputs(step);
  view_ = {.rows = step.tokens_size(),
           .tokens = step.tokens().data(),
           .positions = positions_.data(),
           .sequence_of_row = sequence_of_row_.data(),
           .sequences = sequences_.data(),
           .sequence_count = step.sequences_size(),
           .output_rows = output_rows_.data(),
           .outputs = requests_.data(),
           .output_count = step.outputs_size(),
           .embeddings = nullptr};
  if (!step.embeddings().empty()) {
    const char* bytes = step.embeddings().data();
    LOCKSTEP_CHECK(reinterpret_cast<uintptr_t>(bytes) % alignof(float) == 0);
    view_.embeddings = reinterpret_cast<const float*>(bytes);
  }
  return view_;
}

void StepBuffers::take_rows(const cluster::Step& step, const PageTables& tables) {
  int64_t row = 0;
  for (int i = 0; i < step.sequences_size(); ++i) {
    const cluster::StepSequence& from = step.sequences(i);
    sequences_[i] = {.first_row = row,
                     .rows = from.rows(),
                     .first_position = from.first_position(),
                     .pages = tables.of(from.slot()).data(),
                     .slot = from.slot(),
                     .rope_length = from.rope_length(),
                     .prefix_rows = from.prefix_rows(),
                     .held_position = from.held_position()};
    for (int64_t r = 0; r < from.rows(); ++r, ++row) {
      positions_[row] = static_cast<int32_t>(from.first_position() + r);
      sequence_of_row_[row] = i;
    }
  }
}

void StepBuffers::take_outputs(const cluster::Step& step) {
  reserve_answers(step);
  for (int i = 0; i < step.outputs_size(); ++i) {
    output_rows_[i] = static_cast<int32_t>(step.outputs(i).row());
    take_output(step, step.outputs(i), requests_[i]);
  }
}

void StepBuffers::reserve_answers(const cluster::Step& step) {
  int64_t edits = 0, candidates = 0, sums = 0, logits = 0;
  for (const cluster::Output& output : step.outputs()) {
    edits += output.edits().ids_size() + shared_edits_of(step, output).ids_size();
    candidates += std::min<int64_t>(output.top_count(), columns_) +
                  std::min<int64_t>(output.raw_top_count(), columns_);
    sums += blocks_ * (output.want_edited_sums() + output.want_raw_sums());
    logits += wants_logits(output) ? columns_ : 0;
  }
  grow(edits_, edits);
  grow(candidates_, candidates);
  grow(sums_, sums);
  grow(logits_, logits);
  edits_taken_ = candidates_taken_ = sums_taken_ = logits_taken_ = 0;
}

void StepBuffers::take_output(const cluster::Step& step, const cluster::Output& output,
                              OutputSpec& request) {
  request = {};
  request.temperature = output.temperature();
  request.seed = output.seed();
  request.position = output.position();
  LogitEdit* const edits = edits_.data() + edits_taken_;
  for_each_edit(shared_edits_of(step, output), output.edits(),
                [&](int32_t id, float repetition, float add) {
                  const int64_t column = id - first_block_ * kVocabBlock;
                  if (column < 0 || column >= columns_) return;
                  edits[request.edit_count++] = {id, repetition, add};
                });
  request.edits = edits;
  edits_taken_ += request.edit_count;
  if (!output.mask().empty()) {
    const char* bytes = output.mask().data();
    LOCKSTEP_CHECK(reinterpret_cast<uintptr_t>(bytes) % alignof(uint64_t) == 0);
    request.mask = reinterpret_cast<const uint64_t*>(bytes);
  }
  request.top_count = std::min<int64_t>(output.top_count(), columns_);
  request.top = share(candidates_, candidates_taken_, request.top_count);
  request.raw_top_count = std::min<int64_t>(output.raw_top_count(), columns_);
  request.raw_top = share(candidates_, candidates_taken_, request.raw_top_count);
  request.want_noisy = output.want_noisy();
  if (output.want_edited_sums()) request.edited_sums = share(sums_, sums_taken_, blocks_);
  if (output.want_raw_sums()) request.raw_sums = share(sums_, sums_taken_, blocks_);
  if (wants_logits(output)) request.logits = share(logits_, logits_taken_, columns_);
}

void StepBuffers::give(const cluster::Step& step, cluster::StepResult* result) const {
  for (int i = 0; i < step.outputs_size(); ++i) {
    const OutputSpec& request = requests_[i];
    cluster::Candidates* answer = result->add_outputs();
    if (request.top_found > 0) {
      cluster::CandidateList* top = answer->mutable_top();
      set_list({request.top, static_cast<size_t>(request.top_found)}, top);
      top->mutable_edited()->Reserve(static_cast<int>(request.top_found));
      for (int64_t k = 0; k < request.top_found; ++k) top->add_edited(request.top[k].edited);
    }
    if (request.raw_top_found > 0) {
      set_list({request.raw_top, static_cast<size_t>(request.raw_top_found)},
               answer->mutable_raw_top());
    }
    if (request.noisy.id >= 0) set_candidate(request.noisy, answer->mutable_noisy());
    const auto blocks = static_cast<size_t>(blocks_);
    if (request.edited_sums != nullptr) {
      set_sums(first_block_, {request.edited_sums, blocks}, answer->mutable_edited_sums());
    }
    if (request.raw_sums != nullptr) {
      set_sums(first_block_, {request.raw_sums, blocks}, answer->mutable_raw_sums());
    }
    if (step.outputs(i).want_logits()) {
      answer->set_logits(request.logits, static_cast<size_t>(columns_) * sizeof(float));
    }
    for (const int32_t id : step.outputs(i).raw_ids()) {
      const int64_t column = id - first_block_ * kVocabBlock;
      if (column < 0 || column >= columns_) continue;
      answer->mutable_raw_logits()->add_ids(id);
      answer->mutable_raw_logits()->add_logits(request.logits[column]);
    }
  }
}

}  // namespace lockstep
