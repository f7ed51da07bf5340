// SPDX-License-Identifier: Apache-2.0
// While workers do not answer, requests still end by deadline, by cancellation and with the server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "base/status.h"
#include "base/system/clock.h"
#include "coordinator/engine/engine.h"
#include "tests/coordinator/helpers.h"
#include "tests/support/cluster/fake_cluster.h"

namespace lockstep {
namespace {

class EngineStuckTest : public testing::Test {
 protected:
  EngineStuckTest() { EXPECT_TRUE(engine_.wait_ready().ok()); }
  ~EngineStuckTest() override { cluster_.hold(false); }

  // A request that runs in a step that the workers do not answer.
  std::shared_ptr<Stream> get_stuck(EngineRequest request = request_of(1, 3, 100)) {
    cluster_.hold(true);
    std::shared_ptr<Stream> stream = *engine_.submit(std::move(request));
    eventually([&] { return engine_.stats().running == 1; });
    return stream;
  }
  void ends_with(Stream& stream, absl::StatusCode code) {
    finish(stream);
    EXPECT_EQ(stream.status().code(), code);
  }

  FakeCluster cluster_{{}};
  Engine engine_{&cluster_, nullptr, {.idle_step_ms = 0}};
};

TEST_F(EngineStuckTest, ARequestEndsAtItsDeadline) {
  EngineRequest request = request_of(1, 3, 100);
  request.deadline_ms = steady_now_ms() + 2'000;  // Enough time to begin the request.
  ends_with(*get_stuck(std::move(request)), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(cluster_.groups(), 1);
}

TEST_F(EngineStuckTest, ACancelledRequestEnds) {
  const std::shared_ptr<Stream> stream = get_stuck();
  engine_.cancel(stream);
  EXPECT_EQ(finish(*stream)[0].finish_reason, FinishReason::kCancelled);
}

TEST_F(EngineStuckTest, ARequestInTheQueueEnds) {
  const std::shared_ptr<Stream> stuck = get_stuck();
  EngineRequest late = request_of(2, 3, 10);
  late.deadline_ms = steady_now_ms() + 50;
  ends_with(**engine_.submit(std::move(late)), absl::StatusCode::kDeadlineExceeded);
  const std::shared_ptr<Stream> left = *engine_.submit(request_of(3, 3, 10));
  engine_.cancel(left);
  EXPECT_EQ(finish(*left)[0].finish_reason, FinishReason::kCancelled);
}

TEST_F(EngineStuckTest, ARequestThatArrivesMeanwhileIsAnsweredAsUsual) {
  const auto alone = finish(**engine_.submit(request_of(7, 5, 20)))[0].tokens;
  const std::shared_ptr<Stream> stuck = get_stuck();
  const std::shared_ptr<Stream> late = *engine_.submit(request_of(7, 5, 20));
  eventually([&] { return engine_.stats().waiting == 1; });
  cluster_.hold(false);
  EXPECT_EQ(finish(*late)[0].tokens, alone);
  EXPECT_EQ(finish(*stuck)[0].tokens.size(), 100u);
  EXPECT_THAT(cluster_.broken_rules(), testing::IsEmpty());
}

TEST_F(EngineStuckTest, ADrainEnds) {
  const std::shared_ptr<Stream> stream = get_stuck();
  engine_.drain(std::chrono::milliseconds(50));
  finish(*stream);
  EXPECT_TRUE(engine_.wait_end().ok());
}

}  // namespace
}  // namespace lockstep
