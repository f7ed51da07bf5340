// SPDX-License-Identifier: Apache-2.0
// The events of a step, which readers get while the next step runs.
#include <gtest/gtest.h>

#include "base/status.h"
#include "tests/coordinator/engine/driven_core.h"

namespace lockstep {
namespace {

using engine_action::AppendEvent;
using engine_action::RunStep;

TEST(EngineEventsTest, TheNextStepIsSentBeforeReadersGetTheLastStepsEvents) {
  Driven driven;
  const std::shared_ptr<Stream> stream = driven.submit(request_of(1, 3, 4));
  driven.act();
  driven.core().results(driven.answers());
  EXPECT_EQ(driven.core().wake_at(), 0);
  const std::vector<EngineAction> first = driven.core().take_actions();
  ASSERT_EQ(first.size(), 1u);
  const auto step = std::get<RunStep>(first[0]).step;
  EXPECT_EQ(step->tokens_size(), 1);
  EXPECT_EQ(driven.core().wake_at(), 0) << "there are events to deliver";
  std::vector<EngineAction> second = driven.core().take_actions();
  ASSERT_EQ(second.size(), 1u);
  const StreamEvent& event = std::get<AppendEvent>(second[0]).event;
  EXPECT_EQ(event.token_ids, std::vector<int32_t>(step->tokens().begin(), step->tokens().end()));
  EXPECT_TRUE(driven.core().take_actions().empty());
}

// The text of every token is two letters, the first upper case and the second lower case. So a stop
// string of two letters can only match one whole token.
std::unique_ptr<Tokenizer> lettered_tokenizer(int64_t vocab) {
  std::vector<std::string> texts;
  for (int64_t id = 0; id < vocab; ++id) {
    texts.push_back({static_cast<char>('A' + id / 26), static_cast<char>('a' + id % 26)});
  }
  return tokenizer_of(texts);
}

TEST(EngineEventsTest, AStopStringEndsTheTextAndDropsTheTokensAfterIt) {
  const auto tokenizer = lettered_tokenizer(300);
  const auto run = [&](const EngineRequest& request, int64_t* rows) {
    Driven driven({}, {}, tokenizer.get());
    const std::shared_ptr<Stream> stream = driven.submit(request);
    driven.run();
    *rows = driven.core().stats().completion_tokens;
    EXPECT_EQ(driven.core().stats().pages_free, 64);
    EXPECT_FALSE(driven.core().wake_at() == 0);
    return finish(*stream)[0];
  };
  int64_t drawn = 0;
  EngineRequest request = request_of(1, 3, 9);
  const Answer whole = run(request, &drawn);
  EXPECT_EQ(drawn, 9);
  request.stop = {whole.text.substr(6, 2)};
  const Answer stopped = run(request, &drawn);
  EXPECT_EQ(stopped.text, whole.text.substr(0, whole.text.find(request.stop[0])));
  EXPECT_EQ(stopped.finish_reason, FinishReason::kStop);
  EXPECT_EQ(stopped.tokens.size(), stopped.text.size() / 2 + 1);
  EXPECT_EQ(stopped.completion_tokens, static_cast<int32_t>(stopped.tokens.size()));
  EXPECT_EQ(drawn, stopped.completion_tokens) << "the row after the end draws nothing";
}

TEST(EngineEventsTest, DrawnTokensAreSentBeforeACancelOrALoss) {
  for (const bool lost : {false, true}) {
    Driven driven;
    const std::shared_ptr<Stream> stream = driven.submit(request_of(1, 3, 9));
    driven.act();
    driven.core().results(driven.answers());
    if (lost) {
      driven.core().group_lost(unavailable("rank 1 was lost"));
    } else {
      driven.core().cancel(stream.get());
    }
    driven.run();
    std::vector<StreamEvent> events;
    EXPECT_EQ(stream->read(0, &events), !lost);
    const Answer answer = answers_of(events)[0];
    EXPECT_EQ(answer.tokens.size(), 1u);
    EXPECT_EQ(answer.finish_reason, lost ? FinishReason::kNone : FinishReason::kCancelled);
  }
}

}  // namespace
}  // namespace lockstep
