// SPDX-License-Identifier: Apache-2.0
#include "coordinator/openai/answers/choice_reader.h"

#include <utility>

namespace lockstep::openai {

OutputDelta ChoiceReader::read(const StreamEvent& event) {
  OutputDelta added = parser_.push(event.text);
  if (event.finish_reason != FinishReason::kNone) {
    added.append(parser_.finish(/*is_cut=*/event.finish_reason == FinishReason::kLength));
  }
  const bool has_begun = reasoning_tokens_ > 0 || !added.thought.empty();
  if (has_begun) tokens_since_ += static_cast<int64_t>(event.token_ids.size());
  if (!added.thought.empty()) reasoning_tokens_ += std::exchange(tokens_since_, 0);
  if (!shows_thoughts_) added.thought.clear();
  return added;
}

}  // namespace lockstep::openai
