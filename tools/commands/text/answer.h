// SPDX-License-Identifier: Apache-2.0
// One request's answer, read from its stream, and its text and JSON forms.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "coordinator/engine/engine_request.h"
#include "coordinator/model/model.h"
#include "coordinator/streams/stream.h"

namespace lockstep {

class Answer {
 public:
  Answer(const EngineRequest& request, std::shared_ptr<Stream> stream);

  const std::shared_ptr<Stream>& stream() const { return stream_; }
  bool done() const { return done_; }
  absl::Status status() const { return stream_->status(); }
  int64_t completion_tokens() const;

  // Waits for events and returns the new text of choice 0.
  std::string wait_and_take();

  // {"tokens": [...], "text": "...", "finish_reason": "...", ...}, for choice 0; with n > 1 all
  // choices are in "choices". Logits are printed so that each float reads back to the same bits.
  std::string to_json(const Model& model) const;
  // The texts of all choices, a line or more each. A choice without text is shown as its token ids.
  std::string to_text() const;

 private:
  struct Choice {
    std::vector<int32_t> tokens;
    std::string text;
    std::vector<std::vector<Logprob>> logprobs;
    std::vector<std::vector<Logprob>> prompt_logprobs;
    FinishReason finish_reason = FinishReason::kNone;
    int32_t prompt_tokens = 0;
    int32_t cached_tokens = 0;
    uint64_t seed = 0;
  };

  bool wants_logits_;
  std::shared_ptr<Stream> stream_;
  bool done_ = false;
  size_t offset_ = 0;
  std::vector<Choice> choices_;
  std::vector<float> prompt_logits_;
};

}  // namespace lockstep
