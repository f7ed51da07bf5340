// SPDX-License-Identifier: Apache-2.0
#include "tools/commands/sampling_flags.h"

namespace lockstep {
namespace {

// Every numeric field of the message as a flag of the same name.
template <typename T>
void add_field(CLI::App& app, const std::string& flag, std::function<void(T)> set,
               const std::string& help) {
  app.add_option_function<T>(flag, set, help);
}

}  // namespace

void add_sampling_flags(CLI::App& app, v1::GenerateRequest& request) {
  add_field<int32_t>(
      app, "--max-tokens", [&](int32_t v) { request.set_max_tokens(v); },
      "Tokens to generate (default: the model's, else 128)");
  add_field<int32_t>(
      app, "--min-tokens", [&](int32_t v) { request.set_min_tokens(v); },
      "The text does not stop before this many");
  add_field<float>(
      app, "--temperature", [&](float v) { request.set_temperature(v); },
      "0: always the best token (default: the model's, else 1)");
  add_field<int32_t>(
      app, "--top-k", [&](int32_t v) { request.set_top_k(v); },
      "Draw from the k best tokens; 0: off");
  add_field<float>(
      app, "--top-p", [&](float v) { request.set_top_p(v); },
      "Draw from the best tokens that have this much probability together");
  add_field<float>(
      app, "--min-p", [&](float v) { request.set_min_p(v); },
      "Draw from tokens at least this probable, relative to the best");
  add_field<float>(
      app, "--repetition-penalty", [&](float v) { request.set_repetition_penalty(v); },
      "Above 1: tokens seen before become less likely");
  add_field<float>(
      app, "--presence-penalty", [&](float v) { request.set_presence_penalty(v); },
      "Subtracted once from the logit of each token generated before");
  add_field<float>(
      app, "--frequency-penalty", [&](float v) { request.set_frequency_penalty(v); },
      "Subtracted from it for each time that it was generated");
  add_field<uint64_t>(
      app, "--seed", [&](uint64_t v) { request.set_seed(v); },
      "The same seed draws the same text (default: drawn)");
  app.add_flag_function(
      "--ignore-eos", [&](int64_t) { request.set_ignore_eos(true); },
      "Continue after the model's end token");
}

void add_answer_flags(CLI::App& app, v1::GenerateRequest& request) {
  add_field<int32_t>(
      app, "--n", [&](int32_t v) { request.set_n(v); }, "Texts to generate");
  add_field<int32_t>(
      app, "--logprobs", [&](int32_t v) { request.set_logprobs(v); },
      "Log-probabilities of each token and of this many best ones (with --json)");
}

}  // namespace lockstep
