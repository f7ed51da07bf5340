// SPDX-License-Identifier: Apache-2.0
#include "coordinator/openai/whole_answer.h"

#include <algorithm>

#include "coordinator/openai/response_writer.h"

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
      choices_(prompts, std::vector<Choice>(drawn)),
      prompt_logprobs_(prompts) {}

void WholeAnswer::add(const StreamEvent& event, size_t prompt) {
  Choice& choice = choices_[prompt][event.index];
  std::ranges::copy(event.prompt_logprobs, std::back_inserter(prompt_logprobs_[prompt]));
  choice.text += event.text;
  choice.logprobs.insert(choice.logprobs.end(), event.logprobs.begin(), event.logprobs.end());
  if (event.finish_reason == FinishReason::kNone) return;
  choice.finish_reason = event.finish_reason;
  if (event.index == 0) {
    usage_.prompt_tokens += event.prompt_tokens;
    usage_.cached_tokens += event.cached_tokens;
  }
  usage_.completion_tokens += event.completion_tokens;
}

std::vector<const WholeAnswer::Choice*> WholeAnswer::shown(
    const std::vector<Choice>& choices) const {
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

OrderedJson WholeAnswer::message_json(const Choice& choice, int32_t index, bool* has_calls) const {
  OutputParser parser(facts_.output);
  OutputDelta all = parser.push(choice.text);
  all.append(parser.finish(/*is_cut=*/choice.finish_reason == FinishReason::kLength));
  *has_calls = parser.has_calls();
  OrderedJson message = {{"role", "assistant"}, {"content", nullptr}, {"refusal", nullptr}};
  if (!all.content.empty() || !*has_calls) message["content"] = std::move(all.content);
  if (!all.thought.empty()) message["reasoning_content"] = std::move(all.thought);
  for (const CallDelta& call : all.calls) {
    message["tool_calls"].push_back(
        {{"id", call_id(facts_.id, index, call)},
         {"type", "function"},
         {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
  }
  return message;
}

OrderedJson WholeAnswer::choice_json(const Choice& choice, int32_t index, size_t prompt,
                                     const OrderedJson& echo_logprobs,
                                     const OrderedJson& prompt_logprobs) const {
  bool has_calls = false;
  OrderedJson json = {{"index", index}};
  int64_t offset = 0;
  if (facts_.endpoint == kChat) {
    json["message"] = message_json(choice, index, &has_calls);
  } else {
    json["text"] = facts_.echo_of(prompt) + choice.text;
    offset = count_characters(facts_.echo_of(prompt));
  }
  json["logprobs"] = echo_logprobs;
  if (facts_.logprobs) {
    append_logprobs(logprobs_json(facts_, choice.logprobs, &offset), &json["logprobs"]);
  }
  json["finish_reason"] = finish_reason_json(choice.finish_reason, has_calls);
  if (facts_.prompt_logprobs) json["prompt_logprobs"] = prompt_logprobs;
  return json;
}

std::string WholeAnswer::response_text() const {
  ResponseWriter writer(std::make_shared<const AnswerFacts>(facts_));
  const Choice& choice = choices_[0][0];
  return writer.response({.text = choice.text,
                          .finish_reason = choice.finish_reason,
                          .prompt_tokens = static_cast<int32_t>(usage_.prompt_tokens),
                          .completion_tokens = static_cast<int32_t>(usage_.completion_tokens),
                          .cached_tokens = static_cast<int32_t>(usage_.cached_tokens)});
}

std::string WholeAnswer::text() const {
  if (facts_.endpoint == kResponses) return response_text();
  OrderedJson choices = OrderedJson::array();
  for (size_t prompt = 0; prompt < choices_.size(); ++prompt) {
    OrderedJson echo_logprobs, prompt_logprobs;
    if (facts_.logprobs && !prompt_logprobs_[prompt].empty() && facts_.echoes) {
      EchoPlace place(facts_);
      echo_logprobs = echo_logprobs_json(facts_, prompt_logprobs_[prompt], &place);
    }
    if (facts_.prompt_logprobs) {
      prompt_logprobs = prompt_logprobs_json(facts_, prompt_logprobs_[prompt]);
    }
    for (const Choice* choice : shown(choices_[prompt])) {
      choices.push_back(choice_json(*choice, static_cast<int32_t>(choices.size()), prompt,
                                    echo_logprobs, prompt_logprobs));
    }
  }
  return write_json({{"id", facts_.id},
                     {"object", facts_.endpoint == kChat ? "chat.completion" : "text_completion"},
                     {"created", facts_.created},
                     {"model", facts_.model},
                     {"system_fingerprint", nullptr},
                     {"choices", std::move(choices)},
                     {"usage", usage_json(usage_)}});
}

}  // namespace lockstep::openai
