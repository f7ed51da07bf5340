// SPDX-License-Identifier: Apache-2.0
// Workers that do no arithmetic but detect every wrong Step: KV pages store the tokens that were
// written to them, and logits are a hash of a sequence's pages. Wrong paging gives wrong tokens; a
// Step that breaks its contract gives an error and is recorded.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "coordinator/cluster/group.h"

namespace lockstep {

struct FakeModel {
  int ranks = 1;
  int64_t vocab = 300;
  int64_t pages = 64;
  int64_t page_tokens = 4;
  int64_t max_rows = 64;
  int64_t max_outputs = 16;
  int64_t max_sequences = 16;
  int64_t max_context = 256;
  uint64_t seed = 1;
  int instructions = 3;  // The instructions of a rank's program.
  int32_t poison = -1;   // After a prompt that begins with this token all logits are NaN.
  int32_t deadly = -1;   // A token that is never drawn; computing it may kill a worker.
  // The state blocks of the rank that has the fewest, one per sequence; 0: the model has none.
  int64_t blocks = 0;
  RopeRule rope = {};
  PrefixRule prefix = {};

  int64_t slots() const { return blocks == 0 ? max_sequences : blocks; }
};

GroupInfo fake_info(const FakeModel& model, uint64_t epoch);
// The model: returns the next token's logits after these tokens.
std::vector<float> fake_logits(const FakeModel& model, const std::vector<int32_t>& history);
// The first id of each rank's slice, and then the vocabulary's size. Slices are uneven and end
// between blocks of 64 ids; some may be empty.
std::vector<int64_t> fake_cuts(int64_t vocab, int ranks);
// One rank's answer for ids [begin, end), as the kernel top_candidates defines it. NaN is never the
// best and adds nothing to a sum.
cluster::Candidates fake_candidates(const cluster::Output& output, const std::vector<float>& logits,
                                    int64_t begin, int64_t end);

// Only one thread at a time may use an object.
class FakeWorkers {
 public:
  explicit FakeWorkers(const FakeModel& model);
  // The results of all ranks. An error says which rule the step broke.
  absl::StatusOr<std::vector<cluster::StepResult>> run(const cluster::Step& step);
  absl::StatusOr<std::vector<float>> logits(uint64_t step, int output) const;
  // The same for one rank.
  absl::StatusOr<cluster::StepResult> run_rank(const cluster::Step& step, int rank);
  absl::StatusOr<std::vector<float>> logits_of_rank(uint64_t step, int output, int rank) const;

 private:
  struct Slot {  // One position of a page.
    int64_t position = -1;
    int32_t token = -1;
    int frequencies = 0;  // See RopeRule.
  };
  // The results of ranks [first, last).
  absl::StatusOr<std::vector<cluster::StepResult>> run(const cluster::Step& step, int first,
                                                       int last);
  absl::Status write(const cluster::Step& step);
  absl::Status take_pages(const cluster::StepSequence& sequence);
  absl::Status check_frequencies(const cluster::StepSequence& sequence) const;
  absl::StatusOr<std::vector<int32_t>> read(const cluster::StepSequence& sequence,
                                            int64_t position) const;
  absl::Status check_output(const cluster::Step& step, int index) const;

  FakeModel model_;
  std::vector<int64_t> cuts_;
  std::vector<Slot> slots_;                   // pages * page_tokens slots.
  std::vector<std::vector<int32_t>> tables_;  // By StepSequence.slot.
  std::vector<uint64_t> page_written_in_;  // By page: the last run in which a sequence wrote to it,
  std::vector<uint64_t> page_read_in_;     // and the last one in which a sequence only read it.
  uint64_t runs_ = 0;
  std::optional<uint64_t> last_step_;
  std::vector<std::vector<float>> last_logits_;
};

}  // namespace lockstep
