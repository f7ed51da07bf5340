// SPDX-License-Identifier: Apache-2.0
#include "coordinator/openai/answers/chunk_writer.h"

#include <algorithm>
#include <utility>

#include "coordinator/http/event_stream.h"
#include "coordinator/openai/error.h"

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
  if (facts.endpoint == kChat) head += "\"service_tier\":null,";
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
    : reader(facts.output, facts.include_reasoning),
      logprobs(facts, LogprobWriter::TokenSource::kAnswer, prompt) {}

ChunkWriter::ChunkWriter(std::shared_ptr<const AnswerFacts> facts)
    : facts_(std::move(facts)), head_(head_of(*facts_)) {}

void ChunkWriter::write(const StreamEvent& event, size_t prompt, std::optional<uint64_t> id,
                        std::string* bytes) {
  const std::vector<std::string> all = chunks(event, prompt);
  for (const std::string& data : all) {
    http::append_event(data, &data == &all.back() ? id : std::nullopt, bytes);
  }
}

void ChunkWriter::skip(const StreamEvent& event, size_t prompt) {
  if (event.prompt_logprobs.empty()) {
    pieces_of(event, prompt, /*shown=*/false);
    return;
  }
  echo_of(prompt).skip(event.prompt_logprobs);
  for (int32_t index = first_index(prompt); index < first_index(prompt + 1); ++index) {
    choices_.try_emplace(index, *facts_, prompt).first->second.begun = true;
  }
}

void ChunkWriter::end(std::optional<uint64_t> id, std::string* bytes) {
  const std::optional<std::string> usage = usage_chunk();
  if (usage.has_value()) http::append_event(*usage, id, bytes);
}

void ChunkWriter::done(std::string* bytes) { http::append_done(bytes); }

void ChunkWriter::fail(const absl::Status& status, std::string* bytes) {
  http::append_event(write_json(error_body(status)), std::nullopt, bytes);
}

// If the model has thoughts, each delta has the new part of a thought, or null.
OrderedJson ChunkWriter::delta(OrderedJson members, const std::string& thought) const {
  if (facts_->output.thoughts == nullptr) return members;
  for (const char* key : {"reasoning", "reasoning_content"}) {
    members[key] = thought.empty() ? OrderedJson() : OrderedJson(thought);
  }
  return members;
}

// Whether the answer shows more of the event's tokens than their text: ids or log-probabilities.
bool ChunkWriter::shows_tokens(const StreamEvent& event) const {
  const bool has_ids = facts_->token_ids && !event.token_ids.empty();
  return has_ids || (facts_->logprobs && !shown_logprobs(*facts_, event).empty());
}

std::vector<ChunkWriter::Piece> ChunkWriter::chat_pieces(const StreamEvent& event, int32_t index,
                                                         Choice* choice) const {
  const OutputDelta added = choice->reader.read(event);
  const bool ends = event.finish_reason != FinishReason::kNone;
  const bool shows = shows_tokens(event);
  std::vector<Piece> pieces;
  if (added.empty() && !shows && !ends) return pieces;
  if (!std::exchange(choice->begun, true)) {
    const std::string& echo = facts_->echo_of(0);
    const bool begins_with_call =
        echo.empty() && added.thought.empty() && added.content.empty() && !added.calls.empty();
    pieces.push_back({.key = "delta",
                      .value = delta({{"role", "assistant"},
                                      {"content", begins_with_call ? OrderedJson() : ""},
                                      {"refusal", nullptr}}),
                      .is_role = true});
    if (!echo.empty()) {
      pieces.push_back({.key = "delta", .value = delta({{"content", echo}}), .is_role = true});
    }
  }
  if (!added.thought.empty()) {
    pieces.push_back({.key = "delta", .value = delta(OrderedJson::object(), added.thought)});
  }
  OrderedJson said = OrderedJson::object();
  if (!added.content.empty()) said["content"] = added.content;
  if (!added.calls.empty()) said["tool_calls"] = calls_json(*facts_, index, added.calls);
  if (!said.empty() || (added.thought.empty() && shows)) {
    pieces.push_back({.key = "delta", .value = delta(std::move(said))});
  }
  return pieces;
}

std::vector<ChunkWriter::Piece> ChunkWriter::text_pieces(const StreamEvent& event, size_t prompt,
                                                         Choice* choice) const {
  std::string text = completion_text(event, prompt, *choice);
  choice->begun = true;
  if (text.empty() && !shows_tokens(event)) return {};
  return {{.key = "text", .value = std::move(text)}};
}

ChunkWriter::Piece ChunkWriter::last_piece(const StreamEvent& event, const Choice& choice) const {
  Piece last = {.key = "text", .value = "", .end = OrderedJson::object(), .tokens = choice.tokens};
  if (facts_->endpoint == kChat) {
    // Some clients read the content of every delta that has no thought: they need a text here, too.
    const bool has_thoughts = facts_->output.thoughts != nullptr;
    last.key = "delta";
    last.value = has_thoughts ? delta({{"content", ""}}) : OrderedJson::object();
  }
  add_end(*facts_, event, choice.reader.has_calls(), &last.end);
  return last;
}

std::string ChunkWriter::completion_text(const StreamEvent& event, size_t prompt,
                                         const Choice& choice) const {
  return choice.begun ? event.text : facts_->echo_of(prompt) + event.text;
}

void ChunkWriter::count(const StreamEvent& event, Choice* choice) {
  choice->tokens += std::ssize(event.token_ids);
  if (event.finish_reason == FinishReason::kNone) return;
  if (event.index == 0) {
    usage_.prompt_tokens += event.prompt_tokens;
    usage_.cached_tokens += event.cached_tokens;
  }
  usage_.completion_tokens += event.completion_tokens;
  usage_.reasoning_tokens += choice->reader.reasoning_tokens();
}

// A completion has its prompt's ids in the choice; a chat has them next to its choices.
std::string ChunkWriter::chunk_of(const Piece& piece, int32_t index, size_t prompt) const {
  const bool has_prompt_ids = facts_->token_ids && piece.is_first;
  const std::string prompt_ids =
      has_prompt_ids
          ? ",\"prompt_token_ids\":" + write_json(OrderedJson(facts_->prompt_ids[prompt]))
          : "";
  const bool is_chat = facts_->endpoint == kChat;
  std::string choice = write_json({{"index", index}, {piece.key, piece.value}});
  choice.pop_back();
  if (facts_->token_ids) choice += ",\"token_ids\":" + write_json(OrderedJson(piece.token_ids));
  if (!is_chat) choice += prompt_ids;
  choice += ",\"logprobs\":" + piece.logprobs + "," + write_json(piece.end).substr(1);
  std::string usage = "null";
  if (facts_->continuous_usage) {
    const std::vector<int64_t>& prompts = facts_->prompt_tokens;
    usage = write_json(usage_json({.prompt_tokens = prompt < prompts.size() ? prompts[prompt] : 0,
                                   .completion_tokens = piece.tokens}));
  }
  return head_ + "\"choices\":[" + choice + "]" + (is_chat ? prompt_ids : "") +
         (facts_->include_usage ? ",\"usage\":" + usage : "") + "}";
}

LogprobWriter& ChunkWriter::echo_of(size_t prompt) {
  return echoes_.try_emplace(prompt, *facts_, LogprobWriter::TokenSource::kPrompt, prompt)
      .first->second;
}

// Every choice has the prompt's log-probabilities, before any of its tokens.
std::vector<std::string> ChunkWriter::prompt_chunks(const StreamEvent& event, size_t prompt) {
  const std::string logprobs = echo_of(prompt).completion(event.prompt_logprobs).json();
  std::vector<std::string> chunks;
  for (int32_t index = first_index(prompt); index < first_index(prompt + 1); ++index) {
    Choice& choice = choices_.try_emplace(index, *facts_, prompt).first->second;
    Piece piece = {.key = "text", .value = completion_text(event, prompt, choice)};
    piece.is_first = !std::exchange(choice.begun, true);
    piece.logprobs = logprobs;
    chunks.push_back(chunk_of(piece, index, prompt));
  }
  return chunks;
}

std::vector<ChunkWriter::Piece> ChunkWriter::pieces_of(const StreamEvent& event, size_t prompt,
                                                       bool shown) {
  const int32_t index = index_of(event, prompt);
  Choice& choice = choices_.try_emplace(index, *facts_, prompt).first->second;
  const bool is_chat = facts_->endpoint == kChat;
  const bool is_first = !choice.begun;
  std::vector<Piece> pieces =
      is_chat ? chat_pieces(event, index, &choice) : text_pieces(event, prompt, &choice);
  count(event, &choice);
  // The first piece that shows the tokens' text also has their ids and log-probabilities.
  const auto first = std::ranges::find(pieces, false, &Piece::is_role);
  if (first != pieces.end()) {
    first->token_ids = event.token_ids;
    const TokenLogprobs tokens =
        facts_->logprobs ? shown_logprobs(*facts_, event) : TokenLogprobs();
    if (!shown) {
      choice.logprobs.skip(tokens);
    } else if (!tokens.empty()) {
      first->logprobs =
          is_chat ? choice.logprobs.chat(tokens) : choice.logprobs.completion(tokens).json();
    }
  }
  for (auto piece = first; piece != pieces.end(); ++piece) piece->tokens = choice.tokens;
  if (event.finish_reason != FinishReason::kNone) pieces.push_back(last_piece(event, choice));
  if (!pieces.empty()) pieces[0].is_first = is_first;
  return pieces;
}

std::vector<std::string> ChunkWriter::chunks(const StreamEvent& event, size_t prompt) {
  if (!event.prompt_logprobs.empty()) return prompt_chunks(event, prompt);
  std::vector<std::string> chunks;
  for (const Piece& piece : pieces_of(event, prompt, /*shown=*/true)) {
    chunks.push_back(chunk_of(piece, index_of(event, prompt), prompt));
  }
  return chunks;
}

std::optional<std::string> ChunkWriter::usage_chunk() const {
  if (!facts_->include_usage) return std::nullopt;
  return head_ + "\"choices\":[],\"usage\":" + write_json(usage_json(usage_)) + "}";
}

}  // namespace lockstep::openai
