// SPDX-License-Identifier: Apache-2.0
#include "coordinator/openai/chunk_writer.h"

#include "coordinator/http/event_stream.h"
#include "coordinator/openai/error.h"
#include "coordinator/text/unicode.h"

namespace lockstep::openai {
namespace {

std::string head_of(const AnswerFacts& facts) {
  const char* object = facts.endpoint == kChat ? "chat.completion.chunk" : "text_completion";
  std::string head = write_json({{"id", facts.id},
                                 {"object", object},
                                 {"created", facts.created},
                                 {"model", facts.model},
                                 {"system_fingerprint", nullptr}});
  head.back() = ',';
  return head;
}

OrderedJson calls_json(const AnswerFacts& facts, int32_t index,
                       const std::vector<CallDelta>& calls) {
  OrderedJson list = OrderedJson::array();
  for (const CallDelta& call : calls) {
    OrderedJson json = {{"index", call.index}};
    if (!call.name.empty()) {
      json["id"] = call_id(facts.id, index, call);
      json["type"] = "function";
      json["function"]["name"] = call.name;
    }
    json["function"]["arguments"] = call.arguments;
    list.push_back(std::move(json));
  }
  return list;
}

}  // namespace

ChunkWriter::Choice::Choice(const AnswerFacts& facts, size_t prompt)
    : parser(facts.output),
      logprobs(facts, LogprobWriter::Of::kAnswer, count_characters(facts.echo_of(prompt))) {}

ChunkWriter::ChunkWriter(std::shared_ptr<const AnswerFacts> facts)
    : facts_(std::move(facts)), head_(head_of(*facts_)) {}

void ChunkWriter::write(const StreamEvent& event, size_t prompt, std::optional<uint64_t> id,
                        std::string* bytes) {
  const std::optional<std::string> data = chunk(event, prompt);
  if (data.has_value()) http::append_event(*data, id, bytes);
}

void ChunkWriter::end(std::optional<uint64_t> id, std::string* bytes) {
  const std::optional<std::string> usage = usage_chunk();
  if (usage.has_value()) http::append_event(*usage, id, bytes);
}

void ChunkWriter::done(std::string* bytes) { http::append_done(bytes); }

void ChunkWriter::fail(const absl::Status& status, std::string* bytes) {
  http::append_event(write_json(error_body(status)), std::nullopt, bytes);
}

OrderedJson ChunkWriter::chat_delta(const StreamEvent& event, int32_t index, Choice* choice) const {
  OutputDelta news = choice->parser.push(event.text);
  if (event.finish_reason != FinishReason::kNone) {
    news.append(choice->parser.finish(/*is_cut=*/event.finish_reason == FinishReason::kLength));
  }
  OrderedJson delta = OrderedJson::object();
  if (!choice->begun) {
    delta["role"] = "assistant";
    if (news.thought.empty() && news.calls.empty()) delta["content"] = "";
  }
  if (!news.thought.empty()) delta["reasoning_content"] = std::move(news.thought);
  if (!news.content.empty()) delta["content"] = std::move(news.content);
  if (!news.calls.empty()) delta["tool_calls"] = calls_json(*facts_, index, news.calls);
  return delta;
}

std::string ChunkWriter::completion_text(const StreamEvent& event, size_t prompt,
                                         const Choice& choice) const {
  return choice.begun ? event.text : facts_->echo_of(prompt) + event.text;
}

// The first chunk of a choice has the prompt's: a completion in the choice, chat beside it.
void ChunkWriter::add_token_ids(const StreamEvent& event, size_t prompt, const Choice& choice,
                                OrderedJson* json) const {
  if (!facts_->token_ids) return;
  (*json)["token_ids"] = event.token_ids;
  if (facts_->endpoint == kCompletions && !choice.begun) {
    (*json)["prompt_token_ids"] = facts_->prompt_ids[prompt];
  }
}

std::string ChunkWriter::chunk_of(const std::string& choices,
                                  const std::vector<int32_t>* prompt_ids) const {
  std::string chunk = head_ + "\"choices\":[" + choices + "]";
  if (prompt_ids != nullptr) {
    chunk += ",\"prompt_token_ids\":" + write_json(OrderedJson(*prompt_ids));
  }
  return chunk + (facts_->include_usage ? ",\"usage\":null}" : "}");
}

// Every choice has the prompt's log-probabilities, which come before any of its tokens.
std::string ChunkWriter::prompt_chunk(const StreamEvent& event, size_t prompt) {
  LogprobWriter& echo =
      echoes_.try_emplace(prompt, *facts_, LogprobWriter::Of::kPrompt).first->second;
  const std::string logprobs = write_json(echo.completion(event.prompt_logprobs));
  const int32_t first = static_cast<int32_t>(prompt) * facts_->choices_per_prompt;
  std::string choices;
  for (int32_t index = first; index < first + facts_->choices_per_prompt; ++index) {
    Choice& choice = choices_.try_emplace(index, *facts_, prompt).first->second;
    OrderedJson json = {{"index", index}, {"text", completion_text(event, prompt, choice)}};
    add_token_ids(event, prompt, choice, &json);
    choice.begun = true;
    std::string text = write_json(json);
    text.pop_back();
    choices += (choices.empty() ? "" : ",") + text + ",\"logprobs\":" + logprobs +
               ",\"finish_reason\":null}";
  }
  return chunk_of(choices, nullptr);
}

std::optional<std::string> ChunkWriter::chunk(const StreamEvent& event, size_t prompt) {
  if (!event.prompt_logprobs.empty()) return prompt_chunk(event, prompt);
  const int32_t index = static_cast<int32_t>(prompt) * facts_->choices_per_prompt + event.index;
  Choice& choice = choices_.try_emplace(index, *facts_, prompt).first->second;
  const bool is_chat = facts_->endpoint == kChat;
  OrderedJson json = {{"index", index}};
  if (is_chat) {
    json["delta"] = chat_delta(event, index, &choice);
  } else {
    json["text"] = completion_text(event, prompt, choice);
  }
  if (event.finish_reason != FinishReason::kNone) {
    if (event.index == 0) {
      usage_.prompt_tokens += event.prompt_tokens;
      usage_.cached_tokens += event.cached_tokens;
    }
    usage_.completion_tokens += event.completion_tokens;
  }
  const TokenLogprobs tokens = shown_logprobs(*facts_, event);
  const bool says_nothing =
      is_chat ? json["delta"].empty() : json["text"].get_ref<const std::string&>().empty();
  if (choice.begun && says_nothing && event.finish_reason == FinishReason::kNone &&
      tokens.empty() && !(facts_->token_ids && !event.token_ids.empty())) {
    return std::nullopt;
  }
  const bool has_prompt_ids = is_chat && facts_->token_ids && !choice.begun;
  json["logprobs"] = nullptr;
  if (facts_->logprobs && !tokens.empty()) {
    json["logprobs"] = is_chat ? choice.logprobs.chat(tokens) : choice.logprobs.completion(tokens);
  }
  json["finish_reason"] = finish_reason_json(event.finish_reason, choice.parser.has_calls());
  add_token_ids(event, prompt, choice, &json);
  choice.begun = true;
  return chunk_of(write_json(json), has_prompt_ids ? &facts_->prompt_ids[prompt] : nullptr);
}

std::optional<std::string> ChunkWriter::usage_chunk() const {
  if (!facts_->include_usage) return std::nullopt;
  return head_ + "\"choices\":[],\"usage\":" + write_json(usage_json(usage_)) + "}";
}

}  // namespace lockstep::openai
