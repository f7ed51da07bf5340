// SPDX-License-Identifier: Apache-2.0
// A shape is everything that calls get by value. If two steps have equal shapes, a replay does what
// the calls would do: all other inputs are in memory, which a replay reads again.
#include "worker/steps/step_graphs.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "base/check.h"
#include "base/numbers/quantization.h"
#include "base/status.h"
#include "operators/schema/schema.h"
#include "proto/row_domains.h"
#include "worker/kernel_choice/bindings.h"

namespace lockstep {
namespace {

using program::Program;

// Each shape takes memory of the driver. Before a shape would exceed this number, all earlier ones
// are dropped.
constexpr size_t kMaxShapes = 64;

static_assert(std::has_unique_object_representations_v<StepView>);
bool same(const StepView& one, const StepView& other) {
  return std::memcmp(&one, &other, sizeof(StepView)) == 0;
}

// Whether all collectives of a padded step of this many rows can be captured.
bool can_capture(const Program& program, const Collective& collective, int64_t rows) {
  return std::ranges::all_of(program.instructions(), [&](const program::Instruction& instruction) {
    if (schema_of(op_of(instruction)).run_by != RunBy::kCollective) return true;
    if (instruction.op() != program::ALL_GATHER) return collective.can_be_captured(0);
    const program::Value& whole = program.values(instruction.outputs(0));
    const auto& boundaries = instruction.attributes().gather().boundaries();
    const int64_t widest = widest_part({boundaries.data(), static_cast<size_t>(boundaries.size())});
    return collective.can_be_captured(rows_in(program.row_domains(whole.rows()), rows, rows) *
                                      row_bytes(dtype_of(whole.dtype()), widest));
  });
}

}  // namespace

StepGraphs::StepGraphs(Device& device, const Program& program)
    : device_(device), program_(program), padded_(program.limits()) {}

void StepGraphs::use(const StateRoom& room) {
  shapes_.clear();
  padded_.use(room);
}

void StepGraphs::use(const Collective& collective) {
  shapes_.clear();
  int64_t rows = kMaxPaddedRows;
  while (rows > 0 && !can_capture(program_, collective, rows)) --rows;
  padded_.pad_up_to(rows);
  if (rows > 0) return;
  spdlog::info("{}: steps are queued kernel by kernel: not all ranks can capture their collectives",
               device_.name());
}

absl::Status StepGraphs::run(const StepView& on_device,
                             const std::function<absl::Status()>& direct) {
  if (refused_) return direct();
  const auto known = std::ranges::find_if(
      shapes_, [&](const Shape& shape) { return same(shape.step, on_device); });
  if (known == shapes_.end()) {
    if (shapes_.size() == kMaxShapes) shapes_.clear();
    shapes_.push_back({.step = on_device, .queue = nullptr});
    return direct();
  }
  if (known->queue == nullptr) capture(*known, direct);
  if (refused_) return direct();
  const char* failure = known->queue->replay();
  if (failure == nullptr) return absl::OkStatus();
  give_up(failure);
  return direct();
}

void StepGraphs::capture(Shape& shape, const std::function<absl::Status()>& direct) {
  if (const char* failure = device_.begin_capture(); failure != nullptr) return give_up(failure);
  const absl::Status status = direct();
  std::string problem;
  std::unique_ptr<CapturedQueue> queue = device_.end_capture(&problem);
  if (!status.ok()) return give_up(message_of(status));
  if (queue == nullptr) return give_up(problem);
  shape.queue = std::move(queue);
}

void StepGraphs::give_up(const std::string& reason) {
  refused_ = true;
  shapes_.clear();
  spdlog::warn("{}: steps are queued kernel by kernel, since a graph failed: {}", device_.name(),
               reason);
}

}  // namespace lockstep
