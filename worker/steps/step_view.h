// SPDX-License-Identifier: Apache-2.0
// Converts a cluster::Step to a view for kernels, and the kernels' results to cluster::Candidates.
// The buffers for rows are made once, for the largest step; the buffers for answers grow to the
// largest size so far.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "proto/cluster.pb.h"
#include "proto/program.pb.h"
#include "worker/kernels/kernel.h"
#include "worker/steps/page_tables.h"

namespace lockstep {

// The limits that a step is checked against.
struct StepLimits {
  program::Limits limits = {};
  int64_t vocab = 0;        // All ids, of all ranks together.
  int64_t hidden = 0;       // Columns of an embedding row.
  int64_t slice_begin = 0;  // This rank's first id, a multiple of kVocabBlock.
  int64_t slice_columns = 0;
};

// Checks everything that kernels rely on, in one pass and before anything changes. kInvalidArgument
// names the sequence, output or row, and says what is wrong with it.
absl::Status check_step(const cluster::Step& step, const StepLimits& limits,
                        const PageTables& tables);

// For one thread at a time.
class StepBuffers {
 public:
  explicit StepBuffers(const StepLimits& limits);

  // Takes a step that passed check_step() and was taken by `tables`; both must outlive its run. The
  // view is valid until the next take().
  StepView& take(const cluster::Step& step, const PageTables& tables);
  // Writes the run's results, in the order of the step's outputs.
  void give(const cluster::Step& step, cluster::StepResult* result) const;

 private:
  void take_rows(const cluster::Step& step, const PageTables& tables);
  void take_outputs(const cluster::Step& step);
  void take_output(const cluster::Step& step, const cluster::Output& output, OutputSpec& request);
  void reserve_answers(const cluster::Step& step);

  const int64_t columns_;
  const int64_t first_block_;  // First block of kVocabBlock ids in this rank's part.
  const int64_t blocks_;       // Blocks in this rank's part.

  std::vector<int32_t> positions_;
  std::vector<int32_t> sequence_of_row_;
  std::vector<StepSequence> sequences_;
  std::vector<int32_t> output_rows_;
  std::vector<OutputSpec> requests_;
  // Divided among the requests; they grow to the largest size so far.
  std::vector<LogitEdit> edits_;
  std::vector<Candidate> candidates_;
  std::vector<BlockSum> sums_;
  std::vector<float> logits_;
  int64_t edits_taken_ = 0;
  int64_t candidates_taken_ = 0;
  int64_t sums_taken_ = 0;
  int64_t logits_taken_ = 0;
  StepView view_;
};

}  // namespace lockstep
