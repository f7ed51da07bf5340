// SPDX-License-Identifier: Apache-2.0
// Walks through the step once, to copy and to translate pointers. If the buffer is too small, that
// walk only sums sizes, and a second one in the same order follows. The buffer holds
// [arrays][sequences][requests][what these point to][answers]; requests are copied in both
// directions.
#include "worker/kernels/device_step.h"

#include <algorithm>
#include <cstring>

namespace lockstep {
namespace {

constexpr int64_t kAlign = 16;
constexpr int64_t kMinBytes = 256 << 10;

int64_t blocks_of(int64_t columns) { return (columns + kVocabBlock - 1) / kVocabBlock; }

template <typename T>
void copy(const T* from, int64_t count, T* to) {
  if (to != nullptr && count > 0) std::memcpy(to, from, static_cast<size_t>(count) * sizeof(T));
}

}  // namespace

template <typename T>
DeviceStep::Place<T> DeviceStep::room(int64_t count) {
  const int64_t begin = used_;
  used_ += (count * static_cast<int64_t>(sizeof(T)) + kAlign - 1) / kAlign * kAlign;
  if (used_ > bytes_) return {nullptr, nullptr};
  return {reinterpret_cast<T*>(staging_memory_.data() + begin),
          reinterpret_cast<T*>(device_memory_.data() + begin)};
}

template <typename T>
T* DeviceStep::put(const T* from, int64_t count) {
  if (from == nullptr) return nullptr;
  const Place<T> place = room<T>(count);
  copy(from, count, place.here);
  return place.there;
}

bool DeviceStep::reserve(int64_t bytes) {
  if (bytes <= bytes_) return true;
  const int64_t wanted = std::max({bytes, 2 * bytes_, kMinBytes});
  bytes_ = 0;
  device_memory_ = DeviceMemory();  // Releases the old memory first.
  staging_memory_ = StagingMemory();
  device_memory_ = DeviceMemory(device_, wanted);
  staging_memory_ = StagingMemory(device_, wanted);
  if (staging_memory_.data() == nullptr || device_memory_.data() == nullptr) return false;
  bytes_ = wanted;
  return true;
}

void DeviceStep::lay_out_sequences(const StepView& step, StepSequence* here) {
  for (int64_t i = 0; i < step.sequence_count; ++i) {
    StepSequence sequence = step.sequences[i];
    const int64_t positions = sequence.first_position + sequence.rows;
    view_.longest = std::max(view_.longest, positions);
    const int64_t pages = (positions + sizes_.page_tokens - 1) / sizes_.page_tokens;
    sequence.pages = put(sequence.pages, pages);
    copy(&sequence, 1, here == nullptr ? nullptr : here + i);
  }
}

OutputSpec DeviceStep::with_inputs(const OutputSpec& request) {
  OutputSpec copied = request;
  copied.edits = put(request.edits, request.edit_count);
  copied.mask = put(request.mask, (sizes_.vocab + 63) / 64);
  return copied;
}

void DeviceStep::add_answers(OutputSpec& request) {
  const int64_t columns = sizes_.slice_columns, blocks = blocks_of(columns);
  request.top = room<Candidate>(request.top_count).there;
  request.raw_top = room<Candidate>(request.raw_top_count).there;
  if (request.edited_sums != nullptr) request.edited_sums = room<BlockSum>(blocks).there;
  if (request.raw_sums != nullptr) request.raw_sums = room<BlockSum>(blocks).there;
  if (request.logits != nullptr) request.logits = room<float>(columns).there;
}

void DeviceStep::lay_out_requests(const StepView& step, OutputSpec* here) {
  for (int64_t i = 0; i < step.output_count; ++i) {
    const OutputSpec request = with_inputs(step.outputs[i]);
    copy(&request, 1, here == nullptr ? nullptr : here + i);
  }
  answers_begin_ = used_;
  for (int64_t i = 0; i < step.output_count; ++i) {
    OutputSpec request = here == nullptr ? step.outputs[i] : here[i];
    add_answers(request);
    copy(&request, 1, here == nullptr ? nullptr : here + i);
  }
}

void DeviceStep::lay_out(const StepView& step) {
  used_ = 0;
  view_ = step;
  view_.tokens = put(step.tokens, step.rows);
  view_.positions = put(step.positions, step.rows);
  view_.sequence_of_row = put(step.sequence_of_row, step.rows);
  view_.output_rows = put(step.output_rows, step.output_count);
  const Place<StepSequence> sequences = room<StepSequence>(step.sequence_count);
  requests_begin_ = used_;
  const Place<OutputSpec> requests = room<OutputSpec>(step.output_count);
  view_.sequences = sequences.there;
  view_.outputs = requests.there;
  if (step.embeddings != nullptr) {
    const int64_t given = std::count(step.tokens, step.tokens + step.rows, -1);
    view_.embeddings = put(step.embeddings, given * sizes_.hidden);
  }
  lay_out_sequences(step, sequences.here);
  lay_out_requests(step, requests.here);
}

StepView* DeviceStep::take(const StepView& step) {
  lay_out(step);  // Only sums sizes if the buffer is too small.
  if (used_ > bytes_) {
    if (!reserve(used_)) return nullptr;
    lay_out(step);
  }
  device_.copy_in(device_memory_.data(), staging_memory_.data(), answers_begin_);
  return &view_;
}

template <typename T>
const T* DeviceStep::returned(const T* there) const {
  return reinterpret_cast<const T*>(
      staging_memory_.data() + (reinterpret_cast<const std::byte*>(there) - device_memory_.data()));
}

const char* DeviceStep::give(StepView& step) {
  const int64_t request_bytes = step.output_count * static_cast<int64_t>(sizeof(OutputSpec));
  device_.copy_out(staging_memory_.data() + requests_begin_,
                   device_memory_.data() + requests_begin_, request_bytes);
  device_.copy_out(staging_memory_.data() + answers_begin_, device_memory_.data() + answers_begin_,
                   used_ - answers_begin_);
  if (const char* failure = device_.synchronize(); failure != nullptr) return failure;
  const int64_t columns = sizes_.slice_columns, blocks = blocks_of(columns);
  for (int64_t i = 0; i < step.output_count; ++i) {
    const OutputSpec& found = *returned(view_.outputs + i);
    OutputSpec& to = step.outputs[i];
    to.top_found = found.top_found;
    to.raw_top_found = found.raw_top_found;
    to.noisy = found.noisy;
    copy(returned(found.top), found.top_found, to.top);
    copy(returned(found.raw_top), found.raw_top_found, to.raw_top);
    if (to.edited_sums != nullptr) copy(returned(found.edited_sums), blocks, to.edited_sums);
    if (to.raw_sums != nullptr) copy(returned(found.raw_sums), blocks, to.raw_sums);
    if (to.logits != nullptr) copy(returned(found.logits), columns, to.logits);
  }
  return nullptr;
}

}  // namespace lockstep
