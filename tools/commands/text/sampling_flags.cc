// SPDX-License-Identifier: Apache-2.0
#include "tools/commands/text/sampling_flags.h"

#include <functional>

#include "tools/commands/flag_checks.h"

namespace lockstep {
namespace {

// Makes functions that set a field of the message.
class Setter {
 public:
  explicit Setter(v1::GenerateRequest& request) : request_(request) {}
  template <typename T>
  std::function<void(T)> operator()(void (v1::GenerateRequest::*set)(T)) const {
    return [&request = request_, set](T value) { (request.*set)(value); };
  }

 private:
  v1::GenerateRequest& request_;
};

}  // namespace

void add_sampling_flags(CLI::App& app, v1::GenerateRequest& request) {
  using Request = v1::GenerateRequest;
  const Setter set(request);
  add_flags(app, {
                     {"--max-tokens", set(&Request::set_max_tokens),
                      "Max tokens to generate (default: that of generation_config.json, else 128)"},
                     {"--min-tokens", set(&Request::set_min_tokens),
                      "Min tokens to generate: no end token or stop string ends the text earlier"},
                     {"--temperature", set(&Request::set_temperature),
                      "Temperature of the distribution that tokens are drawn from; 0: always the "
                      "best token (default: that of generation_config.json, else 1)"},
                     {"--top-k", set(&Request::set_top_k), "Draw from the k best tokens; 0: off"},
                     {"--top-p", set(&Request::set_top_p),
                      "Draw from the best tokens: the fewest whose probabilities add up to this"},
                     {"--min-p", set(&Request::set_min_p),
                      "Draw from tokens whose probability is at least this share of the best "
                      "token's probability"},
                     {"--repetition-penalty", set(&Request::set_repetition_penalty),
                      "Above 1: tokens of the prompt and of the text so far become less likely"},
                     {"--presence-penalty", set(&Request::set_presence_penalty),
                      "Subtracted once from the logit of each token that the text has already"},
                     {"--frequency-penalty", set(&Request::set_frequency_penalty),
                      "Subtracted from the logit of each token that the text has already, once per "
                      "occurrence"},
                     {"--seed", set(&Request::set_seed),
                      "The same seed draws the same text (default: random)"},
                 });
  app.add_flag_function(
      "--ignore-eos", [&](int64_t) { request.set_ignore_eos(true); },
      "Continue after the model's end token");
}

void add_answer_flags(CLI::App& app, v1::GenerateRequest& request) {
  const Setter set(request);
  add_flags(app, {{"--n", set(&v1::GenerateRequest::set_n), "The number of texts to generate"},
                  {"--logprobs", set(&v1::GenerateRequest::set_logprobs),
                   "Print the log-probability of each token, and those of this number of best "
                   "tokens (with --json)"}});
}

}  // namespace lockstep
