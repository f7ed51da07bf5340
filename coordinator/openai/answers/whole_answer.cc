// SPDX-License-Identifier: Apache-2.0
#include "coordinator/openai/answers/whole_answer.h"

#include <algorithm>

#include "coordinator/openai/answer_bounds.h"
#include "coordinator/openai/answers/logprobs.h"
#include "coordinator/openai/answers/response_writer.h"

namespace lockstep::openai {
namespace {

double mean_logprob(const std::vector<std::vector<Logprob>>& tokens) {
  double sum = 0;
  for (const std::vector<Logprob>& token : tokens) sum += token[0].logprob;
  return tokens.empty() ? 0 : sum / static_cast<double>(tokens.size());
}

}  // namespace

WholeAnswer::WholeAnswer(AnswerFacts facts, size_t prompts, int32_t drawn)
    : facts_(std::move(facts)), choices_(prompts), prompt_logprobs_(prompts) {
  for (std::deque<Choice>& choices : choices_) {
    for (int32_t choice = 0; choice < drawn; ++choice) choices.emplace_back(facts_);
  }
}

void WholeAnswer::add(const StreamEvent& event, size_t prompt) {
  Choice& choice = choices_[prompt][event.index];
  std::ranges::copy(event.prompt_logprobs, std::back_inserter(prompt_logprobs_[prompt]));
  if (facts_.token_ids) std::ranges::copy(event.token_ids, std::back_inserter(choice.token_ids));
  choice.shown_logprobs += shown_logprobs(facts_, event).size();
  if (facts_.endpoint == kResponses && facts_.logprobs) {
    events_.push_back(event);  // ResponseWriter reads them.
  } else {
    choice.output.append(choice.reader.read(event));
  }
  choice.logprobs.insert(choice.logprobs.end(), event.logprobs.begin(), event.logprobs.end());
  for (const std::vector<Logprob>& token : event.logprobs) scores_ += std::ssize(token);
  text_bytes_ += std::ssize(event.text);
  if (event.finish_reason == FinishReason::kNone) return;
  choice.end = {.finish_reason = event.finish_reason, .stop = event.stop};
  if (event.index == 0) {
    usage_.prompt_tokens += event.prompt_tokens;
    usage_.cached_tokens += event.cached_tokens;
  }
  usage_.completion_tokens += event.completion_tokens;
  usage_.reasoning_tokens += choice.reader.reasoning_tokens();
}

int64_t WholeAnswer::bytes() const {
  int64_t bytes = text_bytes_ + kScoreBytes * scores_;
  const int64_t copies = facts_.endpoint == kCompletions ? facts_.choices_per_prompt : 1;
  const int64_t lists =
      (facts_.logprobs && facts_.echoes ? 1 : 0) + (facts_.prompt_logprobs ? 1 : 0);
  for (size_t prompt = 0; prompt < prompt_logprobs_.size(); ++prompt) {
    bytes += copies * std::ssize(facts_.echo_of(prompt));
    for (const std::vector<Logprob>& token : prompt_logprobs_[prompt]) {
      bytes += copies * lists * kScoreBytes * std::ssize(token);
    }
  }
  return bytes;
}

std::vector<const WholeAnswer::Choice*> WholeAnswer::shown(
    const std::deque<Choice>& choices) const {
  std::vector<const Choice*> all;
  all.reserve(choices.size());
  for (const Choice& choice : choices) all.push_back(&choice);
  const size_t wanted = static_cast<size_t>(facts_.choices_per_prompt);
  if (all.size() == wanted) return all;
  std::ranges::stable_sort(all, std::greater(),
                           [](const Choice* choice) { return mean_logprob(choice->logprobs); });
  all.resize(wanted);
  return all;
}

OrderedJson WholeAnswer::message_json(const Choice& choice, int32_t index) const {
  const OutputDelta& output = choice.output;
  OrderedJson message = {{"role", "assistant"}, {"content", nullptr},
                         {"refusal", nullptr},  {"annotations", nullptr},
                         {"audio", nullptr},    {"function_call", nullptr}};
  const std::string content = facts_.echo_of(0) + output.content;
  if (!content.empty() || output.calls.empty()) message["content"] = content;
  if (facts_.output.thoughts != nullptr) {
    for (const char* key : {"reasoning", "reasoning_content"}) {
      message[key] = output.thought.empty() ? OrderedJson() : OrderedJson(output.thought);
    }
  }
  for (const CallDelta& call : output.calls) {
    message["tool_calls"].push_back(
        {{"id", call_id(facts_.id, index, call)},
         {"type", "function"},
         {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
  }
  return message;
}

// Adds the prompt's data: to each choice of a completion, or next to the choices of a chat.
void WholeAnswer::add_prompt(size_t prompt, OrderedJson* json) const {
  (*json)["prompt_logprobs"] = nullptr;
  if (facts_.prompt_logprobs) {
    LogprobWriter writer(facts_, LogprobWriter::TokenSource::kPrompt, prompt);
    (*json)["prompt_logprobs"] = writer.prompt(prompt_logprobs_[prompt]);
  }
  (*json)["prompt_token_ids"] = nullptr;
  if (facts_.token_ids) (*json)["prompt_token_ids"] = facts_.prompt_ids[prompt];
}

OrderedJson WholeAnswer::choice_json(const Choice& choice, int32_t index, size_t prompt,
                                     const OrderedJson& echo_logprobs) const {
  OrderedJson json = {{"index", index}};
  const bool is_chat = facts_.endpoint == kChat;
  if (is_chat) {
    json["message"] = message_json(choice, index);
  } else {
    json["text"] = facts_.echo_of(prompt) + choice.output.content;
  }
  json["logprobs"] = echo_logprobs;
  if (facts_.logprobs) {
    LogprobWriter writer(facts_, LogprobWriter::TokenSource::kAnswer, prompt);
    const TokenLogprobs tokens = TokenLogprobs(choice.logprobs).first(choice.shown_logprobs);
    append_logprobs(is_chat ? writer.chat(tokens) : writer.completion(tokens), &json["logprobs"]);
  }
  add_end(facts_, choice.end, choice.reader.has_calls(), &json);
  json["token_ids"] = facts_.token_ids ? OrderedJson(choice.token_ids) : OrderedJson();
  if (!is_chat) add_prompt(prompt, &json);
  return json;
}

std::string WholeAnswer::response_text() const {
  ResponseWriter writer(std::make_shared<const AnswerFacts>(facts_));
  if (!events_.empty()) return writer.response(events_);
  const Choice& choice = choices_[0][0];
  return writer.response(choice.output, choice.end.finish_reason, usage_);
}

// Each choice becomes text before the next one is built: JSON values take many times the memory of
// text.
std::string WholeAnswer::choices_text() const {
  std::string text;
  int32_t index = 0;
  for (size_t prompt = 0; prompt < choices_.size(); ++prompt) {
    OrderedJson echo_logprobs;
    if (facts_.logprobs && !prompt_logprobs_[prompt].empty() && facts_.echoes) {
      LogprobWriter writer(facts_, LogprobWriter::TokenSource::kPrompt, prompt);
      echo_logprobs = writer.completion(prompt_logprobs_[prompt]);
    }
    for (const Choice* choice : shown(choices_[prompt])) {
      if (index > 0) text += ',';
      text += write_json(choice_json(*choice, index++, prompt, echo_logprobs));
    }
  }
  return text;
}

std::string WholeAnswer::text() const {
  if (facts_.endpoint == kResponses) return response_text();
  const bool is_chat = facts_.endpoint == kChat;
  std::string text = write_json({{"id", facts_.id},
                                 {"object", is_chat ? "chat.completion" : "text_completion"},
                                 {"created", facts_.created},
                                 {"model", facts_.model},
                                 {"system_fingerprint", nullptr}});
  text.back() = ',';  // The object continues.
  text += R"("choices":[)" + choices_text() + "],";
  OrderedJson rest = {{"usage", usage_json(usage_)}};
  if (is_chat) {
    rest["service_tier"] = nullptr;
    add_prompt(0, &rest);
  }
  return text.append(write_json(rest), 1);
}

}  // namespace lockstep::openai
