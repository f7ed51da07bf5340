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
  while (reader->Read(&response)) {
    for (const v1::TokenLogprobs& one : response.logprobs()) {
      const auto bits = std::bit_cast<uint32_t>(one.chosen().logprob());
      answer.bits.push_back({.token = one.chosen().id(), .logprob = bits});
    }
  }
  answer.status = reader->Finish();
  return answer;
}

int Question::variant_of(const std::vector<Bits>& bits) const {
  const auto found = std::find(answers.begin(), answers.end(), bits);
  return found == answers.end() ? -1 : static_cast<int>(found - answers.begin());
}

bool Question::begins_an_answer(const std::vector<Bits>& bits) const {
  return std::any_of(answers.begin(), answers.end(), [&](const std::vector<Bits>& whole) {
    return bits.size() <= whole.size() && std::equal(bits.begin(), bits.end(), whole.begin());
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
    prompt += " there was a dragon, and a " + prompt;
    prompt.resize(std::min<size_t>(prompt.size(), 1'000));
  }
  return questions;
}

bool was_refused(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNAVAILABLE &&
         status.error_message().find("no complete group") != std::string::npos;
}

bool names_a_rank(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNAVAILABLE &&
         status.error_message().find("rank ") != std::string::npos;
}

}  // namespace lockstep::faults
