// SPDX-License-Identifier: Apache-2.0
// The losses of groups that count as strikes against a request, and when strikes are cleared.
#include <gtest/gtest.h>

#include "base/status.h"
#include "tests/coordinator/engine/driven_core.h"

namespace lockstep {
namespace {

const absl::Status kLost = absl::UnavailableError("rank 1 (pid 7) was lost");
const FakeModel kModel = {.pages = 60, .max_rows = 24, .max_outputs = 8, .max_sequences = 8};

TEST(EngineStrikesTest, OtherRequestsRunWhenASuspectIsCancelled) {
  Driven driven(kModel);
  const std::shared_ptr<Stream> suspect = driven.submit(request_of(1, 3, 9));
  driven.act();
  driven.core().group_lost(kLost);
  driven.form(2);
  driven.act();
  driven.core().group_lost(kLost);
  const std::shared_ptr<Stream> other = driven.submit(request_of(2, 3, 9));
  driven.form(3);
  driven.act();
  ASSERT_EQ(driven.step()->sequences_size(), 1) << "the suspect is alone";
  const std::vector<cluster::StepResult> answers = driven.answers();
  driven.core().cancel(suspect.get());
  driven.core().results(answers);
  driven.run();
  EXPECT_EQ(finish(*other)[0].tokens.size(), 9u);
  EXPECT_EQ(driven.core().stats().waiting, 0);
}

TEST(EngineStrikesTest, AGroupThatGrowsOrASilentWorkerIsNoStrike) {
  for (const absl::Status& why : {absl::AbortedError("the group grows to 3 ranks"),
                                  absl::DeadlineExceededError("nothing came from rank 1")}) {
    Driven driven(kModel);
    const std::shared_ptr<Stream> stream = driven.submit(request_of(1, 3, 2));
    for (uint64_t epoch = 2; epoch < 9; ++epoch) {
      driven.act();
      driven.core().group_lost(why);
      driven.form(epoch);
    }
    driven.run();
    EXPECT_EQ(finish(*stream)[0].tokens.size(), 2u);
  }
}

TEST(EngineStrikesTest, ARequestWhoseStepsAlwaysAbortOrTimeOutEnds) {
  for (const absl::Status& why : {absl::AbortedError("the step was aborted"),
                                  absl::DeadlineExceededError("a collective took too long")}) {
    Driven driven(kModel);
    const std::shared_ptr<Stream> stream = driven.submit(request_of(1, 3, 9));
    uint64_t epoch = 1;
    while (stream->status().ok() && epoch < 100) {
      driven.act();
      driven.core().group_lost(why);
      driven.form(++epoch);
      driven.act();
    }
    EXPECT_EQ(stream->status().code(), absl::StatusCode::kInternal);
    EXPECT_GT(epoch, 20u);
  }
}

// Nine groups are lost before the request's first token. Kills cause the first five losses and the
// seventh, which are no strikes. The other three are strikes, and the third one ends the request.
TEST(EngineStrikesTest, WorkersThatAreKilledFromOutsideAreNoStrike) {
  Driven driven(kModel);
  const std::shared_ptr<Stream> stream = driven.submit(request_of(1, 3, 9));
  uint64_t epoch = 1;
  const auto lose = [&](bool killed) {
    driven.act();
    driven.core().group_lost(kLost);
    GroupInfo info = fake_info(kModel, ++epoch);
    info.follows_a_kill = killed;
    driven.form(info);
    return stream->status().code();
  };
  for (int kill = 0; kill < 5; ++kill) EXPECT_EQ(lose(true), absl::StatusCode::kOk);
  EXPECT_EQ(lose(false), absl::StatusCode::kOk);
  EXPECT_EQ(lose(true), absl::StatusCode::kOk);
  EXPECT_EQ(lose(false), absl::StatusCode::kOk);
  lose(false);
  driven.act();
  EXPECT_EQ(stream->status().code(), absl::StatusCode::kInternal);
}

// Linux may have killed the worker because of the memory that the request takes.
TEST(EngineStrikesTest, ARequestWhoseWorkersAreAlwaysKilledEnds) {
  Driven driven(kModel);
  const std::shared_ptr<Stream> stream = driven.submit(request_of(1, 3, 9));
  uint64_t epoch = 1;
  while (stream->status().ok() && epoch < 100) {
    driven.act();
    driven.core().group_lost(kLost);
    GroupInfo info = fake_info(kModel, ++epoch);
    info.follows_a_kill = true;
    driven.form(info);
    driven.act();
  }
  EXPECT_EQ(stream->status().code(), absl::StatusCode::kInternal);
  EXPECT_GT(epoch, 20u);
}

TEST(EngineStrikesTest, AnIdleGroupThatIsLostIsNoStrike) {
  Driven driven(kModel, {.idle_step_ms = 1000});
  for (uint64_t epoch = 2; epoch < 9; ++epoch) {
    driven.core().tick(static_cast<int64_t>(epoch) * 5000);
    driven.core().tick(static_cast<int64_t>(epoch) * 5000 + 1000);
    driven.act();
    ASSERT_NE(driven.step(), nullptr);
    const std::shared_ptr<Stream> stream = driven.submit(request_of(1, 3, 2));
    driven.core().group_lost(kLost);
    driven.form(epoch);
    driven.run();
    EXPECT_EQ(finish(*stream)[0].tokens.size(), 2u);
  }
}

}  // namespace
}  // namespace lockstep
