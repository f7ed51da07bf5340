// SPDX-License-Identifier: Apache-2.0
#include "coordinator/api/generation_service.h"

#include "base/status.h"
#include "base/version.h"
#include "coordinator/api/generate_reactor.h"

namespace lockstep {
namespace {

grpc::ServerUnaryReactor* finish(grpc::CallbackServerContext* context, const absl::Status& status) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(to_grpc(status));
  return reactor;
}

absl::StatusOr<const Tokenizer*> tokenizer_of(const Model& model) {
  if (model.tokenizer() != nullptr) return model.tokenizer();
  return failed_precondition("{} has no tokenizer.json", model.name());
}

absl::Status tokenize(const Model& model, const v1::TokenizeRequest& request,
                      v1::TokenizeResponse* response) {
  ASSIGN_OR_RETURN(const Tokenizer* tokenizer, tokenizer_of(model));
  EncodeOptions options;
  options.add_special = !request.has_add_special() || request.add_special();
  ASSIGN_OR_RETURN(const std::vector<int32_t> ids, tokenizer->encode(request.text(), options));
  response->mutable_ids()->Add(ids.begin(), ids.end());
  return absl::OkStatus();
}

absl::Status detokenize(const Model& model, const v1::DetokenizeRequest& request,
                        v1::DetokenizeResponse* response) {
  ASSIGN_OR_RETURN(const Tokenizer* tokenizer, tokenizer_of(model));
  const std::vector<int32_t> ids(request.ids().begin(), request.ids().end());
  response->set_text(tokenizer->decode(ids, /*skip_special=*/!request.keep_special()));
  return absl::OkStatus();
}

}  // namespace

grpc::ServerWriteReactor<v1::GenerateResponse>* GenerationService::Generate(
    grpc::CallbackServerContext*, const v1::GenerateRequest* request) {
  return new GenerateReactor(service_, *request);
}

grpc::ServerUnaryReactor* GenerationService::Tokenize(grpc::CallbackServerContext* context,
                                                      const v1::TokenizeRequest* request,
                                                      v1::TokenizeResponse* response) {
  return finish(context, tokenize(service_->model(), *request, response));
}

grpc::ServerUnaryReactor* GenerationService::Detokenize(grpc::CallbackServerContext* context,
                                                        const v1::DetokenizeRequest* request,
                                                        v1::DetokenizeResponse* response) {
  return finish(context, detokenize(service_->model(), *request, response));
}

grpc::ServerUnaryReactor* GenerationService::GetModel(grpc::CallbackServerContext* context,
                                                      const v1::GetModelRequest*,
                                                      v1::GetModelResponse* response) {
  const Model& model = service_->model();
  const EngineStats stats = service_->engine().stats();
  response->set_name(model.name());
  response->set_architecture(model.config().architecture);
  response->set_context_length(static_cast<int32_t>(model.max_context()));
  response->set_vocabulary(static_cast<int32_t>(model.config().vocab_size));
  response->set_workers(service_->options().workers);
  response->set_strategy(strategy_name(model.options().strategy));
  response->set_numeric_class(stats.group.numeric_class);
  response->set_ready(stats.ready);
  response->set_weight_bytes(stats.group.weight_bytes);
  response->set_pages_total(stats.group.pages);
  response->set_pages_free(stats.pages_free);
  response->set_page_tokens(stats.group.page_tokens);
  response->set_running(static_cast<int32_t>(stats.running));
  response->set_waiting(static_cast<int32_t>(stats.waiting));
  response->set_version(kVersion);
  return finish(context, absl::OkStatus());
}

}  // namespace lockstep
