// SPDX-License-Identifier: Apache-2.0
#include "coordinator/api/grpc/resume_reactor.h"

#include "base/status.h"

namespace lockstep {

ResumeReactor::ResumeReactor(const ServedModel& served, grpc::CallbackServerContext* context,
                             grpc::ByteBuffer body)
    : StreamReactor(served, context) {
  const absl::Status begun = begin(&body);
  if (!begun.ok()) Finish(to_grpc(begun));
}

absl::Status ResumeReactor::begin(grpc::ByteBuffer* body) {
  constexpr size_t kMaxBytes = 4096;  // A longer message has unknown fields.
  ASSIGN_OR_RETURN(caller_, admit(served_.keys, *context_, /*counts=*/false));
  if (body->Length() > kMaxBytes) {
    return invalid_argument("ResumeRequest: must have up to {} bytes, found {}", kMaxBytes,
                            body->Length());
  }
  v1::ResumeRequest message;
  RETURN_IF_ERROR(parse(body, &message));
  ASSIGN_OR_RETURN(const std::shared_ptr<ResumableStream> resumable,
                   served_.find_resumable(caller_.client, message.request_id()));
  ASSIGN_OR_RETURN(const std::shared_ptr<StreamReader> reader,
                   resumable->log().open(message.from()));
  follow(message.request_id(), reader, message.from());
  return absl::OkStatus();
}

}  // namespace lockstep
