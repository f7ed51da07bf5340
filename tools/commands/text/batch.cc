// SPDX-License-Identifier: Apache-2.0
#include "tools/commands/text/batch.h"

#include <utility>

#include "base/status.h"

namespace lockstep {

Batch::Batch(Engine* engine, std::vector<absl::StatusOr<EngineRequest>> requests)
    : engine_(engine), requests_(std::move(requests)) {}

absl::StatusOr<Answer> Batch::submit(const absl::StatusOr<EngineRequest>& request) {
  RETURN_IF_ERROR(request.status());
  if (cancelled_) return absl::CancelledError("cancelled");
  ASSIGN_OR_RETURN(std::shared_ptr<Stream> stream, engine_->submit(*request));
  return Answer(*request, std::move(stream));
}

absl::StatusOr<Answer*> Batch::start(size_t index) {
  MutexLock lock(&mutex_);
  // The caller has read this answer.
  if (index > 0) answers_[index - 1] = absl::StatusOr<Answer>();
  while (answers_.size() < requests_.size()) {
    absl::StatusOr<Answer> answer = submit(requests_[answers_.size()]);
    const bool is_ahead = answers_.size() > index;
    if (is_ahead && absl::IsResourceExhausted(answer.status())) break;  // The queue is full.
    answers_.push_back(std::move(answer));
  }
  RETURN_IF_ERROR(answers_[index].status());
  return &*answers_[index];
}

void Batch::cancel() {
  MutexLock lock(&mutex_);
  cancelled_ = true;
  for (const absl::StatusOr<Answer>& answer : answers_) {
    if (answer.ok()) engine_->cancel(answer->stream());
  }
}

}  // namespace lockstep
