// SPDX-License-Identifier: Apache-2.0
#include "tests/faults/questions.h"

#include <algorithm>
#include <bit>

namespace lockstep::faults {

Answer ask(Stub& stub, const v1::GenerateRequest& request, std::chrono::seconds patience) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + patience);
  const auto reader = stub.Generate(&context, request);
  Answer answer;
  v1::GenerateResponse response;
  auto since = std::chrono::steady_clock::now();
  while (reader->Read(&response)) {
    const auto now = std::chrono::steady_clock::now();
    answer.pause =
        std::max(answer.pause, std::chrono::duration_cast<std::chrono::milliseconds>(now - since));
    since = now;
    Choice& choice = answer.choices[response.index()];
    choice.text += response.text();
    for (const v1::TokenLogprobs& one : response.logprobs()) {
      const auto bits = std::bit_cast<uint32_t>(one.chosen().logprob());
      choice.bits.push_back({.token = one.chosen().id(), .logprob = bits});
    }
  }
  answer.status = reader->Finish();
  return answer;
}

int Question::variant_of(const Choices& choices) const {
  const auto found = std::find(answers.begin(), answers.end(), choices);
  return found == answers.end() ? -1 : static_cast<int>(found - answers.begin());
}

bool Question::begins_an_answer(const Choices& choices) const {
  const auto begins = [](const Choice& part, const Choice& whole) {
    return whole.text.starts_with(part.text) && part.bits.size() <= whole.bits.size() &&
           std::equal(part.bits.begin(), part.bits.end(), whole.bits.begin());
  };
  return std::any_of(answers.begin(), answers.end(), [&](const Choices& whole) {
    return std::all_of(choices.begin(), choices.end(), [&](const auto& part) {
      return whole.contains(part.first) && begins(part.second, whole.at(part.first));
    });
  });
}

std::vector<Question> make_questions() {
  constexpr int kQuestions = 8;
  std::vector<Question> questions(kQuestions);
  std::string prompt = "Once upon a time";
  for (int i = 0; i < kQuestions; ++i) {
    v1::GenerateRequest& request = questions[i].request;
    request.set_prompt(prompt);
    request.set_max_tokens(16 + 20 * i);
    request.set_seed(static_cast<uint64_t>(i));
    request.set_ignore_eos(true);
    request.set_logprobs(1);
    if (i % 4 == 1) request.set_temperature(0);
    if (i % 4 == 2) request.set_n(2);
    if (i % 4 == 3) request.set_frequency_penalty(0.4f);
    if (i > 3) request.add_stop(" dragon");
    prompt += " there was a dragon, and a " + prompt;
    prompt.resize(std::min<size_t>(prompt.size(), 1'000));
  }
  return questions;
}

bool was_rewritten(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNAVAILABLE &&
         status.error_message().find("checkpoint was rewritten") != std::string::npos;
}

}  // namespace lockstep::faults
