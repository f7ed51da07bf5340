// SPDX-License-Identifier: Apache-2.0
// Small requests, a small tokenizer and the results of streams, for the tests of this folder.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "coordinator/engine/engine.h"
#include "coordinator/text/tokenizer/tokenizer.h"
#include "tests/support/cluster/fake_cluster.h"
#include "tests/support/patience.h"

namespace lockstep {

// A tokenizer whose ids are the indices of `texts`; decoding joins the tokens' texts.
inline std::unique_ptr<Tokenizer> tokenizer_of(const std::vector<std::string>& texts,
                                               bool byte_fallback = false) {
  nlohmann::json spec;
  spec["model"] = {
      {"type", "BPE"}, {"merges", nlohmann::json::array()}, {"byte_fallback", byte_fallback}};
  for (size_t id = 0; id < texts.size(); ++id) spec["model"]["vocab"][texts[id]] = id;
  spec["added_tokens"] = nlohmann::json::array();
  spec["normalizer"] = nullptr;
  spec["pre_tokenizer"] = nullptr;
  spec["post_processor"] = nullptr;
  spec["decoder"] = {{"type", "Fuse"}};
  if (byte_fallback) {
    spec["decoder"] = {{"type", "Sequence"},
                       {"decoders", {{{"type", "ByteFallback"}}, {{"type", "Fuse"}}}}};
  }
  absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer = Tokenizer::parse(spec.dump());
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return *std::move(tokenizer);
}

// A greedy request; `seed` makes its prompt.
inline EngineRequest request_of(int32_t seed, int64_t prompt_tokens, int32_t max_tokens) {
  EngineRequest request;
  request.id = std::to_string(seed);
  for (int64_t i = 0; i < prompt_tokens; ++i) {
    request.prompt_ids.push_back(static_cast<int32_t>((seed * 31 + i * 7) % 50));
  }
  request.max_tokens = max_tokens;
  request.sampling.temperature = 0;
  return request;
}

// The result of one choice.
struct Answer {
  std::vector<int32_t> tokens;
  std::string text;
  std::vector<std::vector<Logprob>> logprobs;
  std::vector<std::vector<Logprob>> prompt_logprobs;
  std::vector<float> prompt_logits;
  FinishReason finish_reason = FinishReason::kNone;
  int32_t prompt_tokens = 0;
  int32_t completion_tokens = 0;
  int32_t cached_tokens = 0;
  uint64_t seed = 0;
  int events_after_the_last = 0;
};

inline std::map<int32_t, Answer> answers_of(const std::vector<StreamEvent>& events) {
  std::map<int32_t, Answer> answers;
  for (const StreamEvent& event : events) {
    Answer& answer = answers[event.index];
    if (answer.finish_reason != FinishReason::kNone) ++answer.events_after_the_last;
    answer.tokens.insert(answer.tokens.end(), event.token_ids.begin(), event.token_ids.end());
    answer.logprobs.insert(answer.logprobs.end(), event.logprobs.begin(), event.logprobs.end());
    if (!event.prompt_logprobs.empty()) {
      EXPECT_TRUE(answers.size() == 1 && answer.tokens.empty()) << "before any token";
      std::ranges::copy(event.prompt_logprobs, std::back_inserter(answer.prompt_logprobs));
    }
    answer.text += event.text;
    if (!event.prompt_logits.empty()) answer.prompt_logits = event.prompt_logits;
    answer.seed = event.seed;
    if (event.finish_reason == FinishReason::kNone) continue;
    answer.finish_reason = event.finish_reason;
    answer.prompt_tokens = event.prompt_tokens;
    answer.completion_tokens = event.completion_tokens;
    answer.cached_tokens = event.cached_tokens;
  }
  return answers;
}

inline void expect_same(const std::vector<std::vector<Logprob>>& logprobs,
                        const std::vector<std::vector<Logprob>>& expected) {
  ASSERT_EQ(logprobs.size(), expected.size());
  for (size_t t = 0; t < logprobs.size(); ++t) {
    ASSERT_EQ(logprobs[t].size(), expected[t].size());
    for (size_t k = 0; k < logprobs[t].size(); ++k) {
      ASSERT_EQ(logprobs[t][k].id, expected[t][k].id) << "token " << t;
      ASSERT_EQ(logprobs[t][k].logprob, expected[t][k].logprob) << "bits of token " << t;
    }
  }
}

// Compares all that a client receives, except how much of the prompt was cached.
inline void expect_same(const Answer& answer, const Answer& expected) {
  EXPECT_EQ(answer.tokens, expected.tokens);
  EXPECT_EQ(answer.text, expected.text);
  EXPECT_EQ(answer.finish_reason, expected.finish_reason);
  EXPECT_EQ(answer.seed, expected.seed);
  EXPECT_EQ(answer.prompt_tokens, expected.prompt_tokens);
  EXPECT_EQ(answer.completion_tokens, expected.completion_tokens);
  EXPECT_EQ(answer.prompt_logits, expected.prompt_logits);
  EXPECT_EQ(answer.events_after_the_last, 0);
  expect_same(answer.logprobs, expected.logprobs);
  expect_same(answer.prompt_logprobs, expected.prompt_logprobs);
}

// Reads a stream to its end.
inline std::map<int32_t, Answer> finish(Stream& stream) {
  std::vector<StreamEvent> all;
  std::vector<StreamEvent> some;
  for (bool done = false; !done;) {
    stream.wait(all.size());
    done = stream.read(all.size(), &some);
    all.insert(all.end(), some.begin(), some.end());
  }
  return answers_of(all);
}

// Submits make(i) until one is refused or `max` are accepted. Returns the refusal.
template <typename Make>
absl::Status submit_until_refused(Engine& engine, int32_t max, const Make& make,
                                  std::vector<std::shared_ptr<Stream>>* streams) {
  for (int32_t i = 0; i < max; ++i) {
    absl::StatusOr<std::shared_ptr<Stream>> stream = engine.submit(make(i));
    if (!stream.ok()) return stream.status();
    streams->push_back(*std::move(stream));
  }
  return absl::OkStatus();
}

// Fails if the condition does not become true.
template <typename Condition>
void eventually(const Condition& condition) {
  if (!becomes_true(condition)) ADD_FAILURE() << "never came true";
}

}  // namespace lockstep
