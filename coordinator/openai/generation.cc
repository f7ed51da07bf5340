// SPDX-License-Identifier: Apache-2.0
#include "coordinator/openai/generation.h"

#include <algorithm>
#include <random>

#include "base/clock.h"
#include "base/status.h"
#include "coordinator/admission.h"
#include "coordinator/api/generate_request.h"
#include "coordinator/openai/error.h"
#include "coordinator/openai/event_source.h"
#include "coordinator/openai/response_writer.h"

namespace lockstep::openai {
namespace {

std::string make_id(Endpoint endpoint) {
  std::random_device device;
  const char* prefix = endpoint == kChat          ? "chatcmpl-"
                       : endpoint == kCompletions ? "cmpl-"
                                                  : "resp_";
  return fmt::format("{}{:08x}{:08x}{:08x}", prefix, device(), device(), device());
}

// About the memory that a stream's facts take, JSON many times that of its text.
int64_t bytes_of(const AnswerFacts& facts) {
  int64_t bytes = 8 * static_cast<int64_t>(write_json(facts.request).size());
  for (const std::string& text : facts.echo) bytes += static_cast<int64_t>(text.size());
  return bytes;
}

void show(std::string_view tag, const Tokenizer& tokenizer, Request* request) {
  const std::optional<int32_t> id = tokenizer.token_id(tag);
  if (id.has_value() && tokenizer.is_special(*id)) request->shown_special_ids.push_back(*id);
}

}  // namespace

void Generation::begin(Endpoint endpoint, ApiContext* context,
                       const std::shared_ptr<http::Exchange>& exchange) {
  absl::Status accepted = context->served.engine->accepting();
  if (accepted.ok()) {
    const http::Request& request = exchange->request();
    const auto generation = std::make_shared<Generation>(endpoint, context, exchange);
    exchange->on_gone([weak = std::weak_ptr<Generation>(generation)] {
      if (const std::shared_ptr<Generation> self = weak.lock()) self->abandon();
    });
    accepted = context->pool->submit(exchange->client(), static_cast<int64_t>(request.body.size()),
                                     [generation] { generation->start(); });
  }
  if (!accepted.ok()) exchange->respond(error_response(accepted));
}

Generation::Generation(Endpoint endpoint, ApiContext* context,
                       std::shared_ptr<http::Exchange> exchange)
    : endpoint_(endpoint), context_(context), exchange_(std::move(exchange)) {}

void Generation::start() {
  {
    MutexLock lock(&mutex_);
    if (gone_) return;
  }
  absl::StatusOr<ApiRequest> request =
      parse_request(endpoint_, exchange_->request().body, *context_->served.model);
  if (!request.ok()) return exchange_->respond(error_response(request.status()));
  context_->unknown_fields += request->unknown_fields;
  if (request->resumable) {
    const absl::Status begun = start_kept(*request);
    if (!begun.ok()) exchange_->respond(error_response(in_json_words(begun, endpoint_)));
    return;
  }
  std::vector<std::shared_ptr<Stream>> streams;
  const absl::Status submitted = submit(*request, &streams);
  bool gone = false;
  {
    MutexLock lock(&mutex_);
    streams_ = streams;
    gone = gone_;
  }
  if (!submitted.ok() || gone) cancel_all(streams);
  if (!submitted.ok()) {
    return exchange_->respond(error_response(in_json_words(submitted, endpoint_)));
  }
  if (gone) return;
  if (request->stream) {
    stream_answer();
  } else {
    gather_answer(*request);
  }
}

absl::Status Generation::submit(const ApiRequest& request,
                                std::vector<std::shared_ptr<Stream>>* streams) {
  facts_ = facts_of(request);
  for (size_t prompt = 0; prompt < request.prompts.size(); ++prompt) {
    ASSIGN_OR_RETURN(Request one, to_engine(request, prompt));
    one.client = exchange_->client();
    ASSIGN_OR_RETURN(std::shared_ptr<Stream> stream,
                     context_->served.engine->submit(std::move(one)));
    streams->push_back(std::move(stream));
  }
  return absl::OkStatus();
}

// It runs on whatever becomes of its client, and counts as a request of its key for as long.
absl::Status Generation::start_kept(const ApiRequest& request) {
  const ServedModel& served = context_->served;
  absl::Status resumable = served.check_resumable();
  if (!resumable.ok()) return with_param(resumable, "resumable");
  facts_ = facts_of(request);
  const std::string_view given = exchange_->request().header("X-Request-Id");
  if (!given.empty()) {
    facts_.id = given;
    const absl::Status status = check_kept_id(given);
    if (!status.ok()) return with_param(status, "X-Request-Id");
  }
  ASSIGN_OR_RETURN(Request one, to_engine(request, 0));
  one.client = exchange_->client();
  const auto facts = std::make_shared<const AnswerFacts>(std::move(facts_));
  KeptRequest wanted = {.name = {.owner = served.owner_of(one.client), .id = facts->id},
                        .facts = {.is_chat = endpoint_ != kCompletions,
                                  .logprobs = facts->logprobs,
                                  .created_s = facts->created,
                                  .http = facts},
                        .bytes = bytes_of(*facts),
                        .pass = exchange_->pass()};
  ASSIGN_OR_RETURN(const std::shared_ptr<KeptStream> kept,
                   served.kept->submit(served.engine, std::move(one), std::move(wanted)));
  std::vector<std::unique_ptr<StreamReader>> readers(1);
  ASSIGN_OR_RETURN(readers[0], kept->log().open(/*from=*/0));
  answer_with_events(exchange_, facts, std::move(readers));
  return absl::OkStatus();
}

AnswerFacts Generation::facts_of(const ApiRequest& request) const {
  const Model& model = *context_->served.model;
  AnswerFacts facts = {.endpoint = endpoint_,
                       .id = make_id(endpoint_),
                       .created = unix_seconds(),
                       .model = model.name(),
                       .choices_per_prompt = request.n,
                       .include_usage = request.include_usage,
                       .logprobs = request.logprobs,
                       .tokenizer = model.tokenizer()};
  if (endpoint_ == kCompletions) return facts;
  if (endpoint_ == kResponses) facts.request = repeated_fields(request.body);
  facts.output = {.thoughts = context_->thoughts,
                  .tools = request.parses_tools ? context_->tools : nullptr,
                  .one_call = request.one_call};
  return facts;
}

// Checked, rendered, tokenized; what only the tokens say is added to the facts.
absl::StatusOr<Request> Generation::to_engine(const ApiRequest& request, size_t prompt) {
  const Model& model = *context_->served.model;
  ASSIGN_OR_RETURN(Request one, to_request(request.message(prompt), model));
  one.id = facts_.id;
  const Tokenizer* tokenizer = model.tokenizer();
  if (tokenizer == nullptr) return one;
  if (request.echo) {
    const v1::GenerateRequest& given = request.prompts[prompt];
    facts_.echo.push_back(given.has_prompt() ? given.prompt() : tokenizer->decode(one.prompt_ids));
  }
  if (const ToolFormat* tools = facts_.output.tools; tools != nullptr) {
    for (const char* tag : {"[ARGS]", "[CALL_ID]"}) show(tag, *tokenizer, &one);
    for (const std::string_view tag : {tools->begin, tools->end}) show(tag, *tokenizer, &one);
  }
  if (const ThoughtFormat* thoughts = facts_.output.thoughts; thoughts != nullptr) {
    for (const std::string_view tag : {thoughts->begin, thoughts->end}) show(tag, *tokenizer, &one);
    facts_.output.in_thought = ends_in_thought(one.prompt_ids, *thoughts, *tokenizer);
  }
  return one;
}

void Generation::stream_answer() {
  std::vector<std::shared_ptr<Stream>> streams;
  {
    MutexLock lock(&mutex_);
    streams = std::exchange(streams_, {});  // They are the source's, which goes with the client.
  }
  std::vector<std::unique_ptr<StreamReader>> readers;
  readers.reserve(streams.size());
  for (std::shared_ptr<Stream>& stream : streams) {
    readers.push_back(std::make_unique<SoleReader>(context_->served.engine, std::move(stream)));
  }
  answer_with_events(exchange_, std::make_shared<const AnswerFacts>(std::move(facts_)),
                     std::move(readers));
}

// ---- Whole answers ----

void Generation::gather_answer(const ApiRequest& request) {
  std::vector<std::shared_ptr<Stream>> streams;
  {
    MutexLock lock(&mutex_);
    streams = streams_;
    progress_.resize(streams.size());
    const int32_t drawn = request.prompts[0].has_n() ? request.prompts[0].n() : 1;
    answer_ = std::make_unique<WholeAnswer>(facts_, streams.size(), drawn);
  }
  for (size_t prompt = 0; prompt < streams.size(); ++prompt) {
    streams[prompt]->set_listener(
        [self = shared_from_this(), prompt] { self->read_stream(prompt); });
  }
}

// The streams keep their listeners, which keep this object, until they are closed: then it lets go
// of them.
void Generation::read_stream(size_t prompt) {
  std::vector<std::shared_ptr<Stream>> closed;  // Goes after the lock.
  absl::Status accepted;
  {
    MutexLock lock(&mutex_);
    if (streams_.empty() || progress_[prompt].closed) return;
    std::vector<StreamEvent> events;
    progress_[prompt].closed = streams_[prompt]->read(progress_[prompt].offset, &events);
    progress_[prompt].offset += events.size();
    for (const StreamEvent& event : events) answer_->add(event, prompt);
    if (!progress_[prompt].closed) return;
    if (failure_.ok()) failure_ = streams_[prompt]->status();
    if (!std::ranges::all_of(progress_, &Progress::closed)) return;
    closed = std::exchange(streams_, {});
    if (gone_) return;
    accepted = context_->pool->submit(exchange_->client(), 0,
                                      [self = shared_from_this()] { self->respond(); });
  }
  // An answer that was computed is worth a moment of the engine's thread.
  if (!accepted.ok()) respond();
}

void Generation::respond() {
  std::unique_ptr<WholeAnswer> answer;
  absl::Status failure;
  {
    MutexLock lock(&mutex_);
    if (gone_) return;
    answer = std::move(answer_);
    failure = failure_;
  }
  http::Response response =
      failure.ok() ? http::json_response(answer->json()) : error_response(failure);
  response.headers.emplace_back("X-Request-Id", answer->facts().id);
  exchange_->respond(std::move(response));
}

// ---- The client is gone ----

void Generation::abandon() {
  std::vector<std::shared_ptr<Stream>> streams;
  {
    MutexLock lock(&mutex_);
    gone_ = true;
    streams = streams_;
  }
  cancel_all(streams);
}

void Generation::cancel_all(const std::vector<std::shared_ptr<Stream>>& streams) {
  for (const std::shared_ptr<Stream>& stream : streams) context_->served.engine->cancel(stream);
}

}  // namespace lockstep::openai
