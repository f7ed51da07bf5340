// SPDX-License-Identifier: Apache-2.0
#include "coordinator/cluster/workers/worker_call.h"

#include <optional>
#include <utility>

#include "base/status.h"
#include "coordinator/http/grpc/wire.h"

namespace lockstep {

// The answer to the worker's call. The stream is over when this is destroyed: the answer has ended,
// or the worker is gone.
class WorkerCall::Source final : public http::BodySource {
 public:
  explicit Source(std::shared_ptr<WorkerCall> call) : call_(std::move(call)) {}
  ~Source() override { call_->end(); }

  State read(std::string* bytes) override {
    MutexLock lock(&call_->mutex_);
    std::deque<Bytes>& outgoing = call_->outgoing_;
    while (!outgoing.empty() && bytes->size() < http::kPieceBytes) {
      const std::string& message = *outgoing.front();
      const size_t before = bytes->size();
      bytes->append(message, call_->sent_, http::kPieceBytes - before);
      call_->sent_ += bytes->size() - before;
      if (call_->sent_ < message.size()) break;
      call_->sent_ = 0;
      outgoing.pop_front();
    }
    return outgoing.empty() && call_->is_closing_ ? State::kEnd : State::kMore;
  }
  http::Headers trailers() const override {
    MutexLock lock(&call_->mutex_);
    return trailers_of(call_->status_);
  }
  bool is_cut() override {
    MutexLock lock(&call_->mutex_);
    return call_->is_cut_;
  }

 private:
  const std::shared_ptr<WorkerCall> call_;
};

void WorkerCall::begin(const std::shared_ptr<WorkerCall>& call, http::Exchange& exchange) {
  exchange.on_body([call](std::string_view bytes, bool is_last) { call->receive(bytes, is_last); });
  exchange.stream(answer_head(), std::make_unique<Source>(call));
}

// ---- The I/O thread ----

void WorkerCall::receive(std::string_view bytes, bool is_last) {
  if (has_ended_) return;
  const bool continues = !in_.empty();
  if (continues) in_ += bytes;
  std::string_view left = continues ? in_ : bytes;
  const absl::Status status = take_messages(&left);
  if (!status.ok()) {
    end();
    return cut(status);
  }
  if (continues) {
    in_.erase(0, in_.size() - left.size());
  } else {
    in_ = left;
  }
  if (in_.empty()) std::string().swap(in_);  // A message may have been large.
  if (!is_last) return;
  const bool is_whole = in_.empty();
  end();
  close(is_whole ? absl::OkStatus() : invalid_argument("the stream: ends within a message"));
}

absl::Status WorkerCall::take_messages(std::string_view* bytes) const {
  while (true) {
    ASSIGN_OR_RETURN(const std::optional<std::string_view> message,
                     take_message(bytes, max_message_bytes_));
    if (!message.has_value()) return absl::OkStatus();
    cluster::WorkerMessage parsed;
    RETURN_IF_ERROR(parse(*message, &parsed));
    events_.on_message(std::move(parsed));
  }
}

void WorkerCall::end() {
  if (std::exchange(has_ended_, true)) return;
  std::string().swap(in_);
  events_.on_end();
}

// ---- Any thread ----

void WorkerCall::send(Bytes message) {
  {
    MutexLock lock(&mutex_);
    if (is_closing_) return;
    outgoing_.push_back(std::move(message));
  }
  wake_();
}

void WorkerCall::close(const absl::Status& status) {
  {
    MutexLock lock(&mutex_);
    if (std::exchange(is_closing_, true)) return;
    status_ = status;
  }
  wake_();
}

void WorkerCall::cut(const absl::Status& status) {
  {
    MutexLock lock(&mutex_);
    if (std::exchange(is_cut_, true)) return;
    is_closing_ = true;
    status_ = status;
    outgoing_.clear();
    sent_ = 0;
  }
  wake_();
}

}  // namespace lockstep
