// SPDX-License-Identifier: Apache-2.0
// gRPC allows one outstanding write at a time. Finish is called once, after the last write.
#include "coordinator/cluster/workers/worker_call.h"

#include <grpcpp/support/proto_buffer_reader.h>

#include <utility>

#include "coordinator/cluster/cluster_server.h"

namespace lockstep {

grpc::ByteBuffer to_buffer(const google::protobuf::MessageLite& message) {
  const grpc::Slice slice(message.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

WorkerCall::WorkerCall(ClusterServer* server) : server_(server) { server_->count(1); }

WorkerCall::~WorkerCall() { server_->count(-1); }

void WorkerCall::accept(ClusterServer* server, grpc::AsyncGenericService* service,
                        grpc::ServerCompletionQueue* queue) {
  std::shared_ptr<WorkerCall> call(new WorkerCall(server));
  call->self_ = call;
  service->RequestCall(&call->context_, &call->stream_, queue, queue, &call->accepted_);
}

std::string WorkerCall::metadata(const char* name) const {
  const auto found = context_.client_metadata().find(name);
  if (found == context_.client_metadata().end()) return "";
  return std::string(found->second.data(), found->second.size());
}

void WorkerCall::on(Event event, bool ok) {
  switch (event) {
    case Event::kAccepted:
      if (ok) return server_->take(*this);
      done_ = true;  // The server is shutting down.
      break;
    case Event::kRead:
      on_read(ok);
      break;
    case Event::kWritten: {
      MutexLock lock(&mutex_);
      outgoing_.pop_front();
      if (!ok) outgoing_.clear();  // The stream is broken: the pending read fails and closes it.
      write_or_finish();
      break;
    }
    case Event::kFinished:
      done_ = true;
      break;
  }
  if (done_ && !reading_) self_.reset();
}

void WorkerCall::on_read(bool ok) {
  if (ok) {
    cluster::WorkerMessage message;
    grpc::ProtoBufferReader reader(&incoming_);
    if (message.ParseFromZeroCopyStream(&reader)) {
      server_->listener_->on_message(link_, std::move(message));
    } else {
      context_.TryCancel();  // The message cannot be parsed: the next read fails.
    }
    incoming_.Clear();
    return stream_.Read(&incoming_, &read_);
  }
  reading_ = false;
  server_->forget(link_);
  server_->listener_->on_closed(link_);
  close(/*after_sending=*/true);
}

void WorkerCall::reply(const google::protobuf::MessageLite& message) {
  stream_.WriteAndFinish(to_buffer(message), grpc::WriteOptions(), grpc::Status::OK, &finished_);
}

void WorkerCall::refuse(const grpc::Status& status) { stream_.Finish(status, &finished_); }

std::shared_ptr<WorkerCall> WorkerCall::open(LinkId link) {
  link_ = link;
  reading_ = true;
  stream_.Read(&incoming_, &read_);
  return self_;
}

void WorkerCall::send(grpc::ByteBuffer message) {
  MutexLock lock(&mutex_);
  if (closing_) return;
  outgoing_.push_back(std::move(message));
  if (!writing_) write_or_finish();
}

void WorkerCall::close(bool after_sending) {
  if (!after_sending) context_.TryCancel();
  MutexLock lock(&mutex_);
  if (closing_) return;
  closing_ = true;
  if (!writing_) write_or_finish();
}

void WorkerCall::write_or_finish() {
  writing_ = !outgoing_.empty();
  if (writing_) {
    stream_.Write(outgoing_.front(), &written_);
  } else if (closing_ && !finishing_) {
    finishing_ = true;
    stream_.Finish(grpc::Status::OK, &finished_);
  }
}

}  // namespace lockstep
