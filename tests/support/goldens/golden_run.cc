// SPDX-License-Identifier: Apache-2.0
#include "tests/support/goldens/golden_run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/status.h"
#include "tests/support/steps.h"

namespace lockstep {
namespace {

constexpr int64_t kPageTokens = 16, kContext = 256;

// A prompt during decoding: its tokens so far, and how many of them the pages hold.
struct Decoding {
  const GoldenPrompt* golden;
  std::vector<int32_t> tokens;
  std::vector<int32_t> pages;
  int64_t done = 0;
  int64_t rope_length = 0;
  Prefix prefix = {};
  bool finished() const { return tokens.size() >= golden->ids.size() + golden->greedy.size(); }
};

void expect_logits(const std::vector<float>& logits, const std::vector<float>& golden) {
  ASSERT_EQ(logits.size(), golden.size());
  float largest = 0, worst = 0;
  for (size_t i = 0; i < golden.size(); ++i) {
    largest = std::max(largest, std::abs(golden[i]));
    worst = std::max(worst, std::abs(logits[i] - golden[i]));
  }
  EXPECT_LE(worst, 2e-4f * largest);
}

// A sequence that outgrows its rotary frequencies is computed again.
void set_rope_length(const RopeRule& rope, Decoding& prompt) {
  const int64_t length =
      rope.rope_length(std::ssize(prompt.golden->ids), std::ssize(prompt.tokens));
  if (rope.frequencies(length) != rope.frequencies(prompt.rope_length)) prompt.done = 0;
  if (prompt.done == 0) prompt.rope_length = length;
}

// Feeds the new tokens of every unfinished prompt and appends the best tokens.
void step_all(Group& group, uint64_t number, std::vector<Decoding>& prompts) {
  cluster::Step step;
  step.set_step(number);
  std::vector<Decoding*> in_step;
  for (Decoding& prompt : prompts) {
    if (prompt.finished()) continue;
    set_rope_length(group.info().rope, prompt);
    const auto slot = static_cast<int32_t>(&prompt - prompts.data());
    add_rows_in_slot(step, slot, {prompt.tokens.begin() + prompt.done, prompt.tokens.end()},
                     prompt.done, prompt.pages);
    cluster::StepSequence& sequence = *step.mutable_sequences(step.sequences_size() - 1);
    sequence.set_rope_length(prompt.rope_length);
    sequence.set_prefix_rows(prompt.prefix.rows);
    sequence.set_held_position(prompt.prefix.held_position);
    in_step.push_back(&prompt);
  }
  const auto results = group.run(step);
  ASSERT_EQ(message_of(results.status()), "");
  for (int i = 0; i < static_cast<int>(in_step.size()); ++i) {
    Decoding& prompt = *in_step[i];
    if (prompt.tokens == prompt.golden->ids)
      expect_logits(logits_of(*results, i), prompt.golden->last_logits);
    prompt.done = static_cast<int64_t>(prompt.tokens.size());
    prompt.tokens.push_back(best_of(*results, i));
  }
}

}  // namespace

void expect_golden(const GoldenCase& golden, InProcessOptions options) {
  options.limits.set_rows(kContext);  // All prompts of a case fit in one step.
  options.limits.set_context(kContext);
  options.limits.set_page_tokens(kPageTokens);
  auto cluster = InProcessCluster::open(options);
  ASSERT_EQ(message_of(cluster.status()), "");
  auto group = (*cluster)->form({});
  ASSERT_EQ(message_of(group.status()), "");

  std::vector<Decoding> prompts;
  int32_t pages = 0;
  for (const GoldenPrompt& prompt : golden.prompts) {
    Decoding& decoding = prompts.emplace_back();
    decoding.golden = &prompt;
    decoding.tokens = prompt.ids;
    const absl::StatusOr<Prefix> prefix = (*group)->info().prefix.find(prompt.ids);
    ASSERT_EQ(message_of(prefix.status()), "");
    decoding.prefix = *prefix;
    for (int64_t i = 0; i < kContext / kPageTokens; ++i) decoding.pages.push_back(pages++);
  }
  ASSERT_LE(pages, (*group)->info().pages);
  const auto unfinished = [](const Decoding& prompt) { return !prompt.finished(); };
  for (uint64_t step = 1; std::any_of(prompts.begin(), prompts.end(), unfinished); ++step) {
    step_all(**group, step, prompts);
    if (::testing::Test::HasFatalFailure()) return;
  }
  for (const Decoding& prompt : prompts) {
    const std::vector<int32_t> greedy(
        prompt.tokens.begin() + static_cast<int64_t>(prompt.golden->ids.size()),
        prompt.tokens.end());
    EXPECT_EQ(greedy, prompt.golden->greedy);
  }
}

}  // namespace lockstep
