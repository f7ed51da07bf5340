// SPDX-License-Identifier: Apache-2.0
// The public gRPC service (proto/generate.proto) in front of an engine.
#pragma once

#include <grpcpp/grpcpp.h>

#include "coordinator/api/served_model.h"
#include "coordinator/api/task_pool.h"
#include "coordinator/ports/buffered_bytes.h"
#include "proto/generate.grpc.pb.h"

namespace lockstep {

// Methods take and return bytes; see wire.h. Thread-safe; no method blocks or takes long.
class GenerationService final
    : public v1::Generation::WithRawCallbackMethod_Generate<
          v1::Generation::WithRawCallbackMethod_Resume<v1::Generation::WithRawCallbackMethod_Cancel<
              v1::Generation::WithRawCallbackMethod_Tokenize<
                  v1::Generation::WithRawCallbackMethod_Detokenize<
                      v1::Generation::WithRawCallbackMethod_GetModel<v1::Generation::Service>>>>>> {
 public:
  // The pool outlives it; it outlives its server.
  GenerationService(const ServedModel& served, TaskPool* pool) : served_(served), pool_(pool) {}

 private:
  grpc::ServerWriteReactor<grpc::ByteBuffer>* Generate(grpc::CallbackServerContext* context,
                                                       const grpc::ByteBuffer* body) override;
  grpc::ServerWriteReactor<grpc::ByteBuffer>* Resume(grpc::CallbackServerContext* context,
                                                     const grpc::ByteBuffer* body) override;
  grpc::ServerUnaryReactor* Cancel(grpc::CallbackServerContext* context,
                                   const grpc::ByteBuffer* body,
                                   grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* Tokenize(grpc::CallbackServerContext* context,
                                     const grpc::ByteBuffer* body,
                                     grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* Detokenize(grpc::CallbackServerContext* context,
                                       const grpc::ByteBuffer* body,
                                       grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* GetModel(grpc::CallbackServerContext* context,
                                     const grpc::ByteBuffer* body,
                                     grpc::ByteBuffer* response) override;

  const ServedModel served_;
  TaskPool* const pool_;
  BufferedBytes unread_;  // The answers of Tokenize and Detokenize.
};

}  // namespace lockstep
