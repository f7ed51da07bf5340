// SPDX-License-Identifier: Apache-2.0
// All sequences of a warm-up step begin at position 0 and share one page and one slot, so a state
// of one page and one slot is enough.
#include "worker/steps/warm_up.h"

#include <algorithm>
#include <vector>

#include "base/status.h"
#include "worker/collectives/collective.h"
#include "worker/steps/state.h"

namespace lockstep {
namespace {

// Collectives that do nothing.
class NoCollective final : public Collective {
 public:
  explicit NoCollective(const program::Program& program)
      : rank_(program.rank()), ranks_(program.ranks()) {}
  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }
  absl::Status all_reduce(float*, int64_t, int64_t, int64_t) override { return absl::OkStatus(); }
  absl::Status all_gather(const GatherArgs&) override { return absl::OkStatus(); }
  bool can_be_captured(int64_t) const override { return true; }
  void abort() override {}
  Waited waited() const override { return {}; }

 private:
  const int rank_, ranks_;
};

// Rows divided as evenly as possible over the maximum number of sequences.
class EmptyStep {
 public:
  EmptyStep(const program::Limits& limits, int64_t wanted) {
    const int64_t rows = std::min({wanted, limits.rows(), limits.sequences() * limits.context()});
    const int64_t count = std::min(rows, limits.sequences());
    pages_.resize(
        static_cast<size_t>((limits.context() + limits.page_tokens() - 1) / limits.page_tokens()));
    for (int64_t i = 0; i < count; ++i) {
      const int64_t first = rows * i / count, end = rows * (i + 1) / count;
      sequences_.push_back({.first_row = first,
                            .rows = end - first,
                            .pages = pages_.data(),
                            .rope_length = end - first});
      for (int64_t row = first; row < end; ++row) {
        positions_.push_back(static_cast<int32_t>(row - first));
        sequence_of_row_.push_back(static_cast<int32_t>(i));
      }
    }
    tokens_.resize(static_cast<size_t>(rows));
    requests_.resize(static_cast<size_t>(std::min(rows, limits.outputs())), {.want_noisy = true});
    for (size_t i = 0; i < requests_.size(); ++i) output_rows_.push_back(static_cast<int32_t>(i));
  }

  StepView view() {
    return {.rows = static_cast<int64_t>(tokens_.size()),
            .tokens = tokens_.data(),
            .positions = positions_.data(),
            .sequence_of_row = sequence_of_row_.data(),
            .sequences = sequences_.data(),
            .sequence_count = static_cast<int64_t>(sequences_.size()),
            .output_rows = output_rows_.data(),
            .outputs = requests_.data(),
            .output_count = static_cast<int64_t>(requests_.size())};
  }

 private:
  std::vector<int32_t> tokens_, positions_, sequence_of_row_, output_rows_, pages_;
  std::vector<StepSequence> sequences_;
  std::vector<OutputSpec> requests_;
};

}  // namespace

absl::Status warm_up(const program::Program& program, const Bindings& bindings, Device& device,
                     std::span<const int64_t> rows, Progress* progress, Executor& executor) {
  if (rows.empty()) return absl::OkStatus();
  NoCollective alone(program);
  ASSIGN_OR_RETURN(const State state,
                   State::allocate(program, bindings, device, {.pages = 1, .sequences = 1}));
  executor.use(&alone);
  executor.use(state);
  executor.count_as_loading(progress);
  for (const int64_t wanted : rows) {
    EmptyStep step(program.limits(), wanted);
    StepView view = step.view();
    RETURN_IF_ERROR(executor.run(view));
  }
  executor.count_as_loading(nullptr);
  executor.forget_times();
  return absl::OkStatus();
}

}  // namespace lockstep
