// SPDX-License-Identifier: Apache-2.0
#include "tools/load/answer.h"

namespace lockstep {

void AnswerReader::feed(std::string_view bytes, double now_s) {
  const absl::Status status = sse_.feed(bytes, [&](std::string_view data) { read(data, now_s); });
  if (!status.ok()) fail("bad event", message_of(status), now_s);
}

void AnswerReader::read(std::string_view data, double now_s) {
  if (done_ || !record_->failure.empty()) return;
  const absl::StatusOr<AnswerEvent> event = parse_answer_event(data);
  if (!event.ok()) return fail("bad event", message_of(event.status()), now_s);
  if (event->error.has_value()) return fail("error event", printable(*event->error), now_s);
  if (event->has_text) {
    if (record_->text_events++ == 0) {
      record_->first_text_s = now_s;
    } else {
      record_->gaps_ms.push_back(static_cast<float>(1000 * (now_s - record_->last_text_s)));
    }
    record_->last_text_s = now_s;
  }
  record_->prompt_tokens = event->prompt_tokens.value_or(record_->prompt_tokens);
  record_->output_tokens = event->output_tokens.value_or(record_->output_tokens);
  finished_ |= event->finished || event->done;
  done_ = event->done;
  record_->end_s = now_s;
}

void AnswerReader::end(double now_s) {
  if (!record_->failure.empty()) return;
  if (!finished_) return fail("cut off", "the stream ended before its answer did", now_s);
  if (record_->text_events == 0) record_->first_text_s = record_->last_text_s = record_->end_s;
}

void AnswerReader::fail(std::string kind, std::string detail, double now_s) {
  if (!record_->failure.empty()) return;
  record_->failure = std::move(kind);
  record_->detail = std::move(detail);
  record_->end_s = now_s;
}

}  // namespace lockstep
