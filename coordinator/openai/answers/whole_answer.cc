// SPDX-License-Identifier: Apache-2.0
#include "coordinator/openai/answers/whole_answer.h"

#include <algorithm>

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
    : facts_(std::move(facts)),
      choices_(prompts),
      prompt_logprobs_(prompts),
      prompt_score_bytes_(prompts) {
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
  text_bytes_ += std::ssize(event.text);
  for (const std::vector<Logprob>& token : event.logprobs) {
    scores_ += std::ssize(token);
    score_bytes_ += logprob_bytes(facts_, token);
  }
  for (const std::vector<Logprob>& token : event.prompt_logprobs) {
    prompt_score_bytes_[prompt] += logprob_bytes(facts_, token);
  }
  if (event.finish_reason == FinishReason::kNone) return;
  choice.end = {.finish_reason = event.finish_reason, .stop = event.stop};
  if (event.index == 0) {
    usage_.prompt_tokens += event.prompt_tokens;
    usage_.cached_tokens += event.cached_tokens;
  }
  usage_.completion_tokens += event.completion_tokens;
  usage_.reasoning_tokens += choice.reader.reasoning_tokens();
}

// Each choice of a completion repeats its prompt's data.
int64_t WholeAnswer::copies() const {
  return facts_.endpoint == kCompletions ? facts_.choices_per_prompt : 1;
}

// An entry of "prompt_logprobs" takes about twice the bytes of one in a completion's lists.
int64_t WholeAnswer::score_bytes() const {
  const int64_t lists =
      (facts_.logprobs && facts_.echoes ? 1 : 0) + (facts_.prompt_logprobs ? 2 : 0);
  int64_t bytes = score_bytes_;
  for (const int64_t of_prompt : prompt_score_bytes_) bytes += copies() * lists * of_prompt;
  return bytes;
}

int64_t WholeAnswer::bytes() const {
  constexpr int64_t kIdBytes = 6;
  int64_t bytes = text_bytes_ + score_bytes();
  for (size_t prompt = 0; prompt < choices_.size(); ++prompt) {
    bytes += copies() * std::ssize(facts_.echo_of(prompt));
    if (facts_.token_ids) bytes += copies() * kIdBytes * std::ssize(facts_.prompt_ids[prompt]);
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

// The prompt's data: a choice of a completion ends with it, or a chat, next to the choices.
std::string WholeAnswer::prompt_members(size_t prompt) const {
  std::string text = "\"prompt_logprobs\":";
  if (facts_.prompt_logprobs) {
    LogprobWriter writer(facts_, LogprobWriter::TokenSource::kPrompt, prompt);
    text += writer.prompt(prompt_logprobs_[prompt]);
  } else {
    text += "null";
  }
  const OrderedJson ids = facts_.token_ids ? OrderedJson(facts_.prompt_ids[prompt]) : OrderedJson();
  return text + ",\"prompt_token_ids\":" + write_json(ids);
}

void WholeAnswer::append_logprobs(const Choice& choice, size_t prompt,
                                  const CompletionLogprobs& echoed, std::string* text) const {
  LogprobWriter writer(facts_, LogprobWriter::TokenSource::kAnswer, prompt);
  const TokenLogprobs tokens = TokenLogprobs(choice.logprobs).first(choice.shown_logprobs);
  if (!facts_.logprobs) {
    *text += "null";
  } else if (facts_.endpoint == kChat) {
    *text += writer.chat(tokens);
  } else {
    CompletionLogprobs lists = echoed;
    lists.append(writer.completion(tokens));
    *text += lists.json();
  }
}

void WholeAnswer::append_choice(const Choice& choice, int32_t index, size_t prompt,
                                const CompletionLogprobs& echoed, std::string* text) const {
  OrderedJson head = {{"index", index}};
  if (facts_.endpoint == kChat) {
    head["message"] = message_json(choice, index);
  } else {
    head["text"] = facts_.echo_of(prompt) + choice.output.content;
  }
  *text += write_json(head);
  text->pop_back();
  *text += ",\"logprobs\":";
  append_logprobs(choice, prompt, echoed, text);
  OrderedJson end;
  add_end(facts_, choice.end, choice.reader.has_calls(), &end);
  end["token_ids"] = facts_.token_ids ? OrderedJson(choice.token_ids) : OrderedJson();
  *text += ',';
  text->append(write_json(end), 1);
}

std::string WholeAnswer::response_text() const {
  ResponseWriter writer(std::make_shared<const AnswerFacts>(facts_));
  if (!events_.empty()) return writer.response(events_);
  const Choice& choice = choices_[0][0];
  return writer.response(choice.output, choice.end.finish_reason, usage_);
}

void WholeAnswer::append_choices(std::string* text) const {
  int32_t index = 0;
  for (size_t prompt = 0; prompt < choices_.size(); ++prompt) {
    CompletionLogprobs echoed;
    if (facts_.logprobs && facts_.echoes) {
      LogprobWriter writer(facts_, LogprobWriter::TokenSource::kPrompt, prompt);
      echoed = writer.completion(prompt_logprobs_[prompt]);
    }
    const std::string members = facts_.endpoint == kChat ? "" : prompt_members(prompt);
    for (const Choice* choice : shown(choices_[prompt])) {
      if (index > 0) *text += ',';
      append_choice(*choice, index++, prompt, echoed, text);
      if (members.empty()) continue;
      text->back() = ',';
      *text += members + '}';
    }
  }
}

std::string WholeAnswer::text() const {
  if (facts_.endpoint == kResponses) return response_text();
  const bool is_chat = facts_.endpoint == kChat;
  std::string text;
  text.reserve(static_cast<size_t>(bytes()));
  text = write_json({{"id", facts_.id},
                     {"object", is_chat ? "chat.completion" : "text_completion"},
                     {"created", facts_.created},
                     {"model", facts_.model},
                     {"system_fingerprint", nullptr}});
  text.back() = ',';  // The object continues.
  text += R"("choices":[)";
  append_choices(&text);
  text += "],\"usage\":" + write_json(usage_json(usage_));
  if (is_chat) text += ",\"service_tier\":null," + prompt_members(0);
  return text + '}';
}

}  // namespace lockstep::openai
