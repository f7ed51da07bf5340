// SPDX-License-Identifier: Apache-2.0
// The public gRPC service (proto/generate.proto) in front of an engine.
#pragma once

#include <grpcpp/grpcpp.h>

#include "coordinator/service.h"
#include "proto/generate.grpc.pb.h"

namespace lockstep {

// Thread-safe; reactors never block. Outlived by `service`, outlives its server.
class GenerationService final : public v1::Generation::CallbackService {
 public:
  explicit GenerationService(InferenceService* service) : service_(service) {}

 private:
  grpc::ServerWriteReactor<v1::GenerateResponse>* Generate(
      grpc::CallbackServerContext* context, const v1::GenerateRequest* request) override;
  grpc::ServerUnaryReactor* Tokenize(grpc::CallbackServerContext* context,
                                     const v1::TokenizeRequest* request,
                                     v1::TokenizeResponse* response) override;
  grpc::ServerUnaryReactor* Detokenize(grpc::CallbackServerContext* context,
                                       const v1::DetokenizeRequest* request,
                                       v1::DetokenizeResponse* response) override;
  grpc::ServerUnaryReactor* GetModel(grpc::CallbackServerContext* context,
                                     const v1::GetModelRequest* request,
                                     v1::GetModelResponse* response) override;

  InferenceService* const service_;
};

}  // namespace lockstep
