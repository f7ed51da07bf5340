// SPDX-License-Identifier: Apache-2.0
#include "tools/verify/prompt_step.h"

namespace lockstep {

cluster::Step prompt_step(std::span<const int32_t> prompt, int64_t first, int64_t rows,
                          const GroupInfo& info) {
  const auto length = static_cast<int64_t>(prompt.size());
  cluster::Step step;
  cluster::StepSequence& sequence = *step.add_sequences();
  sequence.set_rows(rows);
  sequence.set_first_position(first);
  sequence.set_begins(first == 0);
  sequence.set_rope_length(info.rope.rope_length(length, length));
  for (int page = 0; first == 0 && page * info.page_tokens < length; ++page) {
    sequence.add_pages(page);
  }
  for (int64_t row = 0; row < rows; ++row) {
    step.add_tokens(prompt[static_cast<size_t>(first + row)]);
    cluster::Output& output = *step.add_outputs();
    output.set_row(row);
    output.set_position(first + row + 1);
    output.set_want_logits(true);
  }
  return step;
}

}  // namespace lockstep
