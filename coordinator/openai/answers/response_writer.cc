// SPDX-License-Identifier: Apache-2.0
#include "coordinator/openai/answers/response_writer.h"

#include <fmt/format.h>

#include "base/status.h"
#include "coordinator/http/event_stream.h"
#include "coordinator/openai/answers/json_pieces.h"
#include "coordinator/openai/error.h"
#include "coordinator/text/text_search.h"

namespace lockstep::openai {

namespace {

// The max bytes of repeated_fields() without instructions and tools: three events of a stream
// repeat these fields.
constexpr size_t kMaxRepeatedBytes = 64 << 10;

}  // namespace

absl::StatusOr<std::string> repeated_fields(const OrderedJson& request) {
  OrderedJson json = {{"background", false},
                      {"instructions", nullptr},
                      {"max_output_tokens", nullptr},
                      {"max_tool_calls", nullptr},
                      {"metadata", OrderedJson::object()},
                      {"parallel_tool_calls", true},
                      {"prompt", nullptr},
                      {"prompt_cache_key", nullptr},
                      {"reasoning", {{"effort", nullptr}, {"summary", nullptr}}},
                      {"safety_identifier", nullptr},
                      {"service_tier", nullptr},
                      {"temperature", nullptr},
                      {"text", {{"format", {{"type", "text"}}}}},
                      {"tool_choice", "auto"},
                      {"tools", OrderedJson::array()},
                      {"top_logprobs", nullptr},
                      {"top_p", nullptr},
                      {"truncation", "disabled"},
                      {"user", nullptr}};
  size_t bytes = 0;
  for (auto field = json.begin(); field != json.end(); ++field) {
    const auto found = request.find(field.key());
    if (found == request.end() || found->is_null()) continue;
    field.value() = *found;
    const bool is_prompt = field.key() == "instructions" || field.key() == "tools";
    if (!is_prompt) bytes += write_json(*found).size();
    if (bytes <= kMaxRepeatedBytes) continue;
    return refusal(field.key(),
                   fmt::format("the fields that a response repeats, except instructions and tools, "
                               "must be at most {} bytes of JSON, found more",
                               kMaxRepeatedBytes));
  }
  return write_json(json);
}

ResponseWriter::ResponseWriter(std::shared_ptr<const AnswerFacts> facts)
    : facts_(std::move(facts)),
      reader_(facts_->output, facts_->include_reasoning),
      logprobs_(*facts_, LogprobWriter::TokenSource::kAnswer) {}

void ResponseWriter::write(const StreamEvent& event, size_t, std::optional<uint64_t> id,
                           std::string* bytes) {
  if (!begun_) {
    emit_response("response.created", "in_progress");
    emit_response("response.in_progress", "in_progress");
    begun_ = true;
  }
  take(event);
  flush(id, bytes);
}

void ResponseWriter::skip(const StreamEvent& event, size_t prompt) {
  skips_ = true;
  write(event, prompt, std::nullopt, nullptr);
  skips_ = false;
}

void ResponseWriter::end(std::optional<uint64_t> id, std::string* bytes) {
  const bool is_complete = finish_reason_ == FinishReason::kStop;
  emit_response(is_complete ? "response.completed" : "response.incomplete", final_status());
  flush(id, bytes);
}

void ResponseWriter::done(std::string*) {}

void ResponseWriter::fail(const absl::Status& status, std::string* bytes) {
  OrderedJson error = error_body(status)["error"];
  error.erase("type");  // The event's own type takes its place.
  emit("error", error);
  flush(std::nullopt, bytes);
}

std::string ResponseWriter::response(std::span<const StreamEvent> all) {
  emits_ = false;
  for (const StreamEvent& event : all) take(event);
  return response_text(final_status());
}

// Leaves out the tokens before this text: they show a part of a tag, a dropped blank, thoughts or
// calls.
std::string ResponseWriter::take_logprobs(const std::string& text) {
  std::string tokens;
  for (const TokenEntry& one : unshown_) tokens += one.token;
  const size_t at = rfind_text(tokens, text);
  std::string shown;
  size_t end = 0;  // The end of a token that may come before the text.
  bool is_before = at != std::string::npos;
  for (const TokenEntry& one : unshown_) {
    end += one.token.size();
    is_before = is_before && !one.token.empty() && end <= at;
    if (!is_before) append_entry(one.json, &shown);
  }
  unshown_.clear();
  return shown;
}

std::string ResponseWriter::response(const OutputDelta& all, FinishReason reason,
                                     const UsageCounts& usage) {
  emits_ = false;
  take(all);
  finish(reason, usage);
  return response_text(final_status());
}

void ResponseWriter::take(const StreamEvent& event) {
  if (facts_->logprobs) {
    for (TokenEntry& entry : logprobs_.entries(shown_logprobs(*facts_, event))) {
      unshown_.push_back(std::move(entry));
    }
  }
  take(reader_.read(event));
  if (event.finish_reason == FinishReason::kNone) return;
  finish(event.finish_reason, {.prompt_tokens = event.prompt_tokens,
                               .cached_tokens = event.cached_tokens,
                               .completion_tokens = event.completion_tokens,
                               .reasoning_tokens = reader_.reasoning_tokens()});
}

void ResponseWriter::take(const OutputDelta& added) {
  if (!added.thought.empty()) add_text(Kind::kThought, added.thought);
  if (!added.content.empty()) add_text(Kind::kMessage, added.content);
  for (const CallDelta& call : added.calls) add_call(call);
  if (!added.thought.empty() || !added.calls.empty()) unshown_.clear();
}

void ResponseWriter::finish(FinishReason reason, const UsageCounts& usage) {
  finish_reason_ = reason;
  close();
  usage_ = usage;
}

// ---- Items ----

void ResponseWriter::add_text(Kind kind, const std::string& text) {
  if (!is_open_ || items_.back().kind != kind) {
    open({.kind = kind, .id = kind == Kind::kThought ? "rs_" : "msg_"});
  }
  items_.back().text += text;
  OrderedJson event = place();
  event["delta"] = text;
  if (kind == Kind::kThought) return emit("response.reasoning_text.delta", event);
  const std::string shown = take_logprobs(text);
  if (!shown.empty()) append_entry(shown, &items_.back().logprobs);
  emit("response.output_text.delta", event, "logprobs", "[" + shown + "]");
}

void ResponseWriter::add_call(const CallDelta& call) {
  if (!call.name.empty()) {
    open({.kind = Kind::kCall,
          .id = "fc_",
          .name = call.name,
          .call_id = call_id(facts_->id, 0, call)});
  }
  if (call.arguments.empty()) return;
  items_.back().text += call.arguments;
  OrderedJson event = place();
  event.erase("content_index");
  event["delta"] = call.arguments;
  emit("response.function_call_arguments.delta", event);
}

void ResponseWriter::open(Item item) {
  close();
  item.id += facts_->id.substr(facts_->id.find('_') + 1) + std::to_string(items_.size());
  items_.push_back(std::move(item));
  is_open_ = true;
  const Item& added = items_.back();
  OrderedJson shown = item_head(added, "in_progress");
  if (added.kind != Kind::kCall) shown["content"] = OrderedJson::array();
  emit("response.output_item.added",
       {{"output_index", items_.size() - 1}, {"item", std::move(shown)}});
  if (added.kind == Kind::kCall) return;
  emit("response.content_part.added", place(), "part", part_text(added));
}

void ResponseWriter::close() {
  if (!std::exchange(is_open_, false) || !emits_) return;
  const Item& item = items_.back();
  OrderedJson event = place();
  if (item.kind == Kind::kCall) {
    event.erase("content_index");
    event["name"] = item.name;
    event["arguments"] = item.text;
    emit("response.function_call_arguments.done", event);
  } else {
    event["text"] = item.text;
    if (item.kind == Kind::kThought) {
      emit("response.reasoning_text.done", event);
    } else {
      emit("response.output_text.done", event, "logprobs", "[" + item.logprobs + "]");
    }
    emit("response.content_part.done", place(), "part", part_text(item));
  }
  emit("response.output_item.done", {{"output_index", items_.size() - 1}}, "item",
       item_text(item, item_status()));
}

OrderedJson ResponseWriter::place() const {
  return {{"item_id", items_.back().id}, {"output_index", items_.size() - 1}, {"content_index", 0}};
}

OrderedJson ResponseWriter::item_head(const Item& item, const char* status) {
  switch (item.kind) {
    case Kind::kThought:
      return {{"id", item.id},
              {"type", "reasoning"},
              {"status", status},
              {"summary", OrderedJson::array()}};
    case Kind::kMessage:
      return {{"id", item.id}, {"type", "message"}, {"status", status}, {"role", "assistant"}};
    case Kind::kCall:
      return {{"id", item.id},           {"type", "function_call"}, {"status", status},
              {"call_id", item.call_id}, {"name", item.name},       {"arguments", item.text}};
  }
  return nullptr;
}

std::string ResponseWriter::part_text(const Item& item) {
  if (item.kind == Kind::kThought) {
    return write_json({{"type", "reasoning_text"}, {"text", item.text}});
  }
  return with_member(
      {{"type", "output_text"}, {"text", item.text}, {"annotations", OrderedJson::array()}},
      "logprobs", "[" + item.logprobs + "]");
}

std::string ResponseWriter::item_text(const Item& item, const char* status) {
  const OrderedJson head = item_head(item, status);
  if (item.kind == Kind::kCall) return write_json(head);
  return with_member(head, "content", "[" + part_text(item) + "]");
}

// ---- The response ----

const char* ResponseWriter::final_status() const {
  switch (finish_reason_) {
    case FinishReason::kLength:
      return "incomplete";
    case FinishReason::kCancelled:
      return "cancelled";
    default:
      return "completed";
  }
}

// The status of the item that ends now. An item is complete if another one follows it.
const char* ResponseWriter::item_status() const {
  const bool is_whole =
      finish_reason_ == FinishReason::kNone || finish_reason_ == FinishReason::kStop;
  return is_whole ? "completed" : "incomplete";
}

std::string ResponseWriter::response_text(const char* status) const {
  const bool is_over = finish_reason_ != FinishReason::kNone;
  OrderedJson json = {{"id", facts_->id},
                      {"object", "response"},
                      {"created_at", facts_->created},
                      {"status", status},
                      {"error", nullptr},
                      {"incomplete_details", nullptr},
                      {"model", facts_->model},
                      {"previous_response_id", nullptr},
                      {"store", false},
                      {"usage", is_over ? usage_json() : nullptr}};
  if (finish_reason_ == FinishReason::kLength) {
    json["incomplete_details"] = {{"reason", "max_output_tokens"}};
  }
  std::string output;
  for (size_t i = 0; is_over && i < items_.size(); ++i) {
    const bool is_last = i + 1 == items_.size();
    append_entry(item_text(items_[i], is_last ? item_status() : "completed"), &output);
  }
  std::string text = with_member(json, "output", "[" + output + "]");
  text.back() = ',';
  return text.append(facts_->repeated, 1);
}

OrderedJson ResponseWriter::usage_json() const {
  return {{"input_tokens", usage_.prompt_tokens},
          {"input_tokens_details",
           {{"cached_tokens", usage_.cached_tokens}, {"cache_write_tokens", 0}}},
          {"output_tokens", usage_.completion_tokens},
          {"output_tokens_details", {{"reasoning_tokens", usage_.reasoning_tokens}}},
          {"total_tokens", usage_.prompt_tokens + usage_.completion_tokens}};
}

// ---- On the wire ----

void ResponseWriter::emit(const char* type, const OrderedJson& event, const char* name,
                          std::string_view value) {
  if (!emits_) return;
  const int64_t number = sequence_++;
  if (skips_) return;
  OrderedJson json = {{"type", type}, {"sequence_number", number}};
  json.update(event);
  events_.emplace_back(type, name == nullptr ? write_json(json) : with_member(json, name, value));
}

void ResponseWriter::emit_response(const char* type, const char* status) {
  const int64_t number = sequence_++;
  if (skips_) return;
  events_.emplace_back(type, fmt::format(R"({{"type":"{}","sequence_number":{},"response":{}}})",
                                         type, number, response_text(status)));
}

void ResponseWriter::flush(std::optional<uint64_t> id, std::string* bytes) {
  for (size_t i = 0; i < events_.size(); ++i) {
    const bool is_last = i + 1 == events_.size();
    http::append_event(std::exchange(events_[i].second, {}), is_last ? id : std::nullopt, bytes,
                       events_[i].first);
  }
  events_.clear();
}

}  // namespace lockstep::openai
