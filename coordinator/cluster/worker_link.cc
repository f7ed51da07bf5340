// SPDX-License-Identifier: Apache-2.0
// One write is outstanding at a time, as gRPC wants it; Finish is called once, by whoever is last.
#include "coordinator/cluster/worker_link.h"

namespace lockstep {

WorkerLink* WorkerLink::open(LinkListener* listener) {
  auto link = std::make_shared<WorkerLink>();
  link->self_ = link;
  link->listener_ = listener;
  link->StartRead(&link->incoming_);
  return link.get();
}

void WorkerLink::send(cluster::CoordinatorMessage message) {
  absl::MutexLock lock(&mutex_);
  if (closing_) return;
  outgoing_.push_back(std::move(message));
  if (!writing_) write_or_finish();
}

void WorkerLink::close() {
  absl::MutexLock lock(&mutex_);
  if (closing_) return;
  closing_ = true;
  if (!writing_) write_or_finish();
}

void WorkerLink::write_or_finish() {
  writing_ = !outgoing_.empty();
  if (writing_) {
    StartWrite(&outgoing_.front());
  } else if (closing_ && !finished_) {
    finished_ = true;
    Finish(grpc::Status::OK);
  }
}

void WorkerLink::OnReadDone(bool ok) {
  if (ok) {
    listener_->on_message(self_, std::move(incoming_));
    incoming_.Clear();
    StartRead(&incoming_);
    return;
  }
  listener_->on_closed(self_);
  close();
}

void WorkerLink::OnWriteDone(bool ok) {
  absl::MutexLock lock(&mutex_);
  outgoing_.pop_front();
  if (!ok) outgoing_.clear();  // The stream is broken: the pending read fails too and closes.
  write_or_finish();
}

void WorkerLink::OnDone() { self_.reset(); }

}  // namespace lockstep
