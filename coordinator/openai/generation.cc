// SPDX-License-Identifier: Apache-2.0
#include "coordinator/openai/generation.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/status.h"
#include "base/system/clock.h"
#include "base/system/out_of_memory.h"
#include "coordinator/admission/admission.h"
#include "coordinator/api/generate_request.h"
#include "coordinator/engine/request_log.h"
#include "coordinator/openai/answer_bounds.h"
#include "coordinator/openai/answers/echo.h"
#include "coordinator/openai/answers/event_source.h"
#include "coordinator/openai/answers/response_writer.h"
#include "coordinator/openai/error.h"
#include "coordinator/openai/fields/values.h"
#include "coordinator/openai/request_headers.h"
#include "proto/handshake.h"

namespace lockstep::openai {
namespace {

std::string make_id(Endpoint endpoint) {
  const char* prefix = endpoint == kChat          ? "chatcmpl-"
                       : endpoint == kCompletions ? "cmpl-"
                                                  : "resp_";
  return prefix + to_hex(draw_nonce().substr(0, 12));
}

void refuse(http::Exchange& exchange, const absl::Status& status) {
  const http::Request& request = exchange.request();
  const std::string id = id_of(request);
  log_refused(exchange.client(), request.path, traceparent_of(request), status, id);
  http::Response response = error_response(status);
  if (!id.empty()) response.headers.emplace_back("X-Request-Id", id);
  exchange.respond(std::move(response));
}

// Whether a stream's reader has something to see, or the stream has ended without an error.
bool has_begun(const std::vector<StreamEvent>& events, bool closed, const absl::Status& status) {
  const auto shows = [](const StreamEvent& event) {
    return !event.token_ids.empty() || event.finish_reason != FinishReason::kCancelled;
  };
  return std::ranges::any_of(events, shows) || (closed && status.ok());
}

}  // namespace

void Generation::begin(Endpoint endpoint, ApiContext* context,
                       const std::shared_ptr<http::Exchange>& exchange) {
  const http::Request& request = exchange->request();
  const absl::StatusOr<int64_t> timeout_ms = timeout_of(request.header(kTimeoutHeader));
  if (!timeout_ms.ok()) return refuse(*exchange, timeout_ms.status());
  absl::Status accepted = context->served.engine->accepting(exchange->client());
  if (accepted.ok()) {
    const auto generation = std::make_shared<Generation>(endpoint, context, exchange);
    if (*timeout_ms > 0) generation->deadline_ms_ = steady_now_ms() + *timeout_ms;
    exchange->on_gone([weak = std::weak_ptr<Generation>(generation)] {
      if (const std::shared_ptr<Generation> self = weak.lock()) self->abandon();
    });
    accepted = context->pool->submit(
        exchange->client(), static_cast<int64_t>(request.body.size()),
        [generation] { generation->start(); }, generation->deadline_ms_);
  }
  if (!accepted.ok()) refuse(*exchange, accepted);
}

Generation::Generation(Endpoint endpoint, ApiContext* context,
                       std::shared_ptr<http::Exchange> exchange)
    : endpoint_(endpoint),
      context_(context),
      engine_(context->served.engine),
      exchange_(std::move(exchange)) {}

absl::Status Generation::check_deadline() const {
  if (deadline_ms_ == 0 || steady_now_ms() < deadline_ms_) return absl::OkStatus();
  return absl::DeadlineExceededError("the request's deadline passed");
}

void Generation::start() {
  {
    MutexLock lock(&mutex_);
    if (gone_) return;
  }
  std::vector<std::shared_ptr<Stream>> streams;
  const absl::Status status = within_memory([&] { return answer(&streams); });
  if (status.ok()) return;
  cancel_all(streams);
  {
    MutexLock lock(&mutex_);
    if (gone_) return;
  }
  refuse(*exchange_, status);
}

// If the model has no parser for calls, a conversation in which another model called tools would be
// refused for ever. So it is answered with text alone, and "tools" is named as an ignored field.
bool Generation::goes_on_without_tools(const ApiRequest& request) const {
  return !context_->formats.check_tools().ok() && !context_->unknown_fields.refuses() &&
         std::ranges::any_of(request.shared.chat().messages(), [](const v1::ChatMessage& message) {
           return message.tool_calls_size() > 0;
         });
}

absl::Status Generation::answer(std::vector<std::shared_ptr<Stream>>* streams) {
  RETURN_IF_ERROR(check_deadline());
  ASSIGN_OR_RETURN(ApiRequest request,
                   parse_request(endpoint_, exchange_->request().body, *context_->served.model));
  if (request.parses_tools && goes_on_without_tools(request)) {
    request.parses_tools = false;
    request.unknown_fields.emplace_back("tools");
  }
  ASSIGN_OR_RETURN(std::string ignored,
                   context_->unknown_fields.take(*exchange_, request.unknown_fields));
  exchange_->drop_body();
  facts_ = facts_of(request);
  facts_.ignored_fields = std::move(ignored);
  if (request.resumable) return in_json_words(start_resumable(request), request);
  const absl::Status submitted = submit(request, streams);
  if (!submitted.ok()) return in_json_words(submitted, request);
  {
    MutexLock lock(&mutex_);
    streams_ = *streams;
    if (gone_) return absl::CancelledError("the client is gone");
  }
  if (request.stream) {
    stream_answer();
  } else {
    gather_answer(request);
  }
  return absl::OkStatus();
}

// The bytes of JSON that the newest prompt takes in each choice of a whole answer.
int64_t Generation::repeated_bytes() const {
  constexpr int64_t kIdBytes = 8;
  int64_t bytes = 0;
  if (!facts_.echo.empty()) bytes += std::ssize(write_json(facts_.echo.back()));
  const bool has_ids = facts_.token_ids && endpoint_ == kCompletions;
  return has_ids ? bytes + kIdBytes * std::ssize(facts_.prompt_ids.back()) : bytes;
}

absl::Status Generation::submit(const ApiRequest& request,
                                std::vector<std::shared_ptr<Stream>>* streams) {
  RETURN_IF_ERROR(check_choices(request));
  ScoreCount scores;
  RepeatCount repeats;
  RequestBatch batch(request.shared, *context_->served.model);
  for (size_t prompt = 0; prompt < request.prompts.size(); ++prompt) {
    ASSIGN_OR_RETURN(EngineRequest one, to_engine(request, prompt, &batch));
    if (!request.stream) {
      RETURN_IF_ERROR(scores.add(request, one, context_->served.model->max_context()));
      RETURN_IF_ERROR(repeats.add(request, one, repeated_bytes()));
    }
    RETURN_IF_ERROR(hold_facts());
    RETURN_IF_ERROR(context_->served.check_wait(one));
    ASSIGN_OR_RETURN(std::shared_ptr<Stream> stream,
                     context_->served.engine->submit(std::move(one)));
    streams->push_back(std::move(stream));
  }
  return absl::OkStatus();
}

// The stream continues without its client, and counts as a request of its key until it ends.
absl::Status Generation::start_resumable(const ApiRequest& request) {
  const ServedModel& served = context_->served;
  const absl::Status allowed = served.check_resumable();
  if (!allowed.ok()) return with_param(allowed, "resumable");
  const std::string_view given = exchange_->request().header("X-Request-Id");
  const absl::Status named = given.empty() ? absl::OkStatus() : check_resumable_id(given);
  if (!named.ok()) return with_param(named, "X-Request-Id");
  RequestBatch batch(request.shared, *served.model);
  ASSIGN_OR_RETURN(EngineRequest one, to_engine(request, 0, &batch));
  RETURN_IF_ERROR(served.check_wait(one));
  const std::shared_ptr<const AnswerFacts> facts = take_facts();
  ResumableParams wanted = {.name = {.owner = served.owner_of(one.client), .id = facts->id},
                            .facts = {.is_chat = endpoint_ != kCompletions,
                                      .logprobs = facts->logprobs,
                                      .created_s = facts->created,
                                      .http = facts},
                            .bytes = bytes_of(*facts),
                            .permit = exchange_->permit()};
  ASSIGN_OR_RETURN(const std::shared_ptr<ResumableStream> resumable,
                   served.resumable->submit(served.engine, std::move(one), std::move(wanted)));
  std::vector<std::unique_ptr<StreamReader>> readers(1);
  ASSIGN_OR_RETURN(readers[0], resumable->log().open(/*from=*/0));
  answer_with_events(exchange_, facts, std::move(readers));
  return absl::OkStatus();
}

absl::Status Generation::hold_facts() {
  const int64_t bytes = bytes_of(facts_);
  if (bytes == 0) return absl::OkStatus();
  if (facts_.held == nullptr) {
    facts_.held = std::make_shared<HeldBytes>(context_->held, exchange_->client());
  }
  if (facts_.held->hold(bytes).fit(context_->max_held_bytes)) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      fmt::format("the tools, prompts and fields that your answers in progress keep must take at "
                  "most {} bytes, found more; try again when one has ended",
                  context_->max_held_bytes / 2));
}

AnswerFacts Generation::facts_of(const ApiRequest& request) const {
  const Model& model = *context_->served.model;
  std::string id = id_of(exchange_->request());
  AnswerFacts facts = {
      .endpoint = endpoint_,
      .id = id.empty() ? make_id(endpoint_) : std::move(id),
      .created = unix_seconds(),
      .model = model.name(),
      .choices_per_prompt = request.n,
      .resumable = request.resumable,
      .include_usage = request.include_usage,
      .continuous_usage = request.continuous_usage,
      .include_reasoning = request.include_reasoning,
      .logprobs = request.logprobs,
      .prompt_logprobs = request.prompt_logprobs,
      .echoes = request.echo && endpoint_ == kCompletions,
      .token_ids = request.token_ids,
      .tokens_as_ids = request.tokens_as_ids,
      .stop_ids = {request.shared.stop_ids().begin(), request.shared.stop_ids().end()},
      .tokenizer = model.tokenizer()};
  if (endpoint_ == kCompletions) return facts;
  if (endpoint_ == kResponses) facts.repeated = request.repeated;
  facts.output = {.thoughts = context_->formats.thoughts, .one_call = request.one_call};
  if (!request.parses_tools) return facts;
  facts.output.tools = context_->formats.tools;
  if (facts.output.tools == nullptr || !facts.output.tools->has_types()) return facts;
  const auto& tools = request.shared.chat().tools();
  facts.output.functions =
      std::make_shared<const FunctionTypes>(std::vector<std::string>(tools.begin(), tools.end()));
  return facts;
}

// Checks, renders and tokenizes one prompt; adds the facts that need its tokens.
absl::StatusOr<EngineRequest> Generation::to_engine(const ApiRequest& request, size_t prompt,
                                                    RequestBatch* batch) {
  const Model& model = *context_->served.model;
  ASSIGN_OR_RETURN(EngineRequest one, batch->add(request.prompts[prompt]));
  if (endpoint_ == kResponses && request.stream) {
    RETURN_IF_ERROR(bound_response(model.max_context(), &one));
  }
  one.id = facts_.id;
  RETURN_IF_ERROR(context_->served.check_priority(exchange_->permit().get(), one.priority));
  one.client = exchange_->client();
  one.endpoint = exchange_->request().path;
  one.traceparent = traceparent_of(exchange_->request());
  one.deadline_ms = deadline_ms_;
  facts_.prompt_tokens.push_back(std::ssize(one.prompt_ids));
  if (prompt == 0) one.answer_bytes = bytes_of(facts_);  // They have no prompt's ids or echo yet.
  if (request.token_ids) {
    facts_.prompt_ids.push_back(one.prompt_ids);
    one.answer_bytes += std::ssize(one.prompt_ids) * static_cast<int64_t>(sizeof(int32_t));
  }
  const Tokenizer* tokenizer = model.tokenizer();
  if (tokenizer == nullptr) return one;
  if (!request.skips_special) one.shown_special_ids = context_->special_ids;
  if (request.echo) {
    facts_.echo.push_back(echo_of(request, prompt, one.prompt_ids, *tokenizer));
    one.answer_bytes += std::ssize(facts_.echo.back());
  }
  if (request.parses_tools) {
    RETURN_IF_ERROR(with_param(context_->formats.check_tools(), "tools"));
  }
  if (facts_.output.tools != nullptr) {
    std::ranges::copy(context_->tool_tag_ids, std::back_inserter(one.shown_special_ids));
  }
  if (const Format* thoughts = facts_.output.thoughts; thoughts != nullptr) {
    std::ranges::copy(context_->thought_tag_ids, std::back_inserter(one.shown_special_ids));
    facts_.output.place = thought_place(one.prompt_ids, *thoughts, *tokenizer);
  }
  return one;
}

// With a deadline, the response's head waits for the first event: until then the answer may still
// become an error status. Without a deadline the head is sent at once: then comments of the event
// stream can fill a long wait.
void Generation::stream_answer() {
  std::vector<std::shared_ptr<Stream>> streams;
  {
    MutexLock lock(&mutex_);
    streams = streams_;
    begun_ = deadline_ms_ == 0;
    if (begun_) streams_.clear();  // The source owns them, until the client is gone.
  }
  if (deadline_ms_ == 0) return answer_with_events(exchange_, take_facts(), readers_of(streams));
  for (const std::shared_ptr<Stream>& stream : streams) {
    stream->set_listener([self = shared_from_this()] { self->on_events(); });
  }
}

void Generation::on_events() {
  std::vector<std::shared_ptr<Stream>> streams;  // Destroyed after the lock.
  absl::Status failure;
  {
    MutexLock lock(&mutex_);
    if (begun_) return exchange_->wake();
    for (const std::shared_ptr<Stream>& stream : streams_) {
      std::vector<StreamEvent> events;
      const bool closed = stream->read(0, &events);
      begun_ |= has_begun(events, closed, stream->status());
      if (closed && failure.ok()) failure = stream->status();
    }
    if (!begun_ && failure.ok()) return;
    begun_ = true;
    streams = std::exchange(streams_, {});
    if (gone_) return;
  }
  if (failure.ok()) return begin_events(exchange_, take_facts(), readers_of(streams));
  cancel_all(streams);
  http::Response response = error_response(failure);
  add_headers(facts_, &response);
  exchange_->respond(std::move(response));
}

std::shared_ptr<const AnswerFacts> Generation::take_facts() {
  return std::make_shared<const AnswerFacts>(std::move(facts_));
}

std::vector<std::unique_ptr<StreamReader>> Generation::readers_of(
    const std::vector<std::shared_ptr<Stream>>& streams) const {
  std::vector<std::unique_ptr<StreamReader>> readers;
  readers.reserve(streams.size());
  for (const std::shared_ptr<Stream>& stream : streams) {
    readers.push_back(std::make_unique<SoleReader>(context_->served.engine, stream));
  }
  return readers;
}

// ---- Whole answers ----

void Generation::gather_answer(const ApiRequest& request) {
  std::vector<std::shared_ptr<Stream>> streams;
  {
    MutexLock lock(&mutex_);
    streams = streams_;
    progress_.resize(streams.size());
    const int32_t drawn = request.shared.has_n() ? request.shared.n() : 1;
    answer_ = std::make_unique<WholeAnswer>(std::move(facts_), streams.size(), drawn);
  }
  for (size_t prompt = 0; prompt < streams.size(); ++prompt) {
    streams[prompt]->set_listener(
        [self = shared_from_this(), prompt] { self->read_stream(prompt); });
  }
}

// Each stream owns its listener, and the listener owns this object. The object drops the streams
// when all are closed. If one stream fails, all end: the client would not read the other answers.
void Generation::read_stream(size_t prompt) {
  std::vector<std::shared_ptr<Stream>> closed;  // Destroyed after the lock.
  bool failed = false;
  absl::Status accepted;
  {
    MutexLock lock(&mutex_);
    if (streams_.empty() || progress_[prompt].closed) return;
    std::vector<StreamEvent> events;
    progress_[prompt].closed = streams_[prompt]->read(progress_[prompt].offset, &events);
    progress_[prompt].offset += events.size();
    for (const StreamEvent& event : events) answer_->add(event, prompt);
    const absl::Status fits = ScoreCount::check(answer_->scores(), answer_->score_bytes());
    if (!progress_[prompt].closed && fits.ok()) return;
    failure_ = fits.ok() ? streams_[prompt]->status() : fits;
    failed = !failure_.ok();
    if (!failed && !std::ranges::all_of(progress_, &Progress::closed)) return;
    closed = std::exchange(streams_, {});
    if (gone_) return;
    const int64_t bytes = failed ? 0 : answer_->bytes();
    accepted = context_->pool->submit(
        exchange_->client(), bytes, [self = shared_from_this()] { self->respond(); }, deadline_ms_);
    // The pool refused the work. The answer is computed, so this thread, the notifier's, writes it,
    // unless that takes long.
    if (!accepted.ok() && bytes > TaskPool::kLongBytes) failure_ = accepted;
  }
  if (failed) cancel_all(closed);
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
  http::Response response;
  if (failure.ok()) {
    failure = within_memory([&] {
      response = http::json_text_response(answer->text());
      return absl::OkStatus();
    });
  }
  if (!failure.ok()) response = error_response(failure);
  add_headers(answer->facts(), &response);
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
  for (const std::shared_ptr<Stream>& stream : streams) engine_->cancel(stream);
}

}  // namespace lockstep::openai
