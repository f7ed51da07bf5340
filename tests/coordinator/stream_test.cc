// SPDX-License-Identifier: Apache-2.0
// The log of events: offsets, waiting, listeners.
#include "coordinator/stream.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace lockstep {
namespace {

StreamEvent event_of(int32_t id) {
  StreamEvent event;
  event.token_ids = {id};
  return event;
}

TEST(StreamTest, ReadersTakeUpWhereTheyWereAndSeeTheEndOnce) {
  Stream stream;
  std::vector<StreamEvent> events;
  EXPECT_FALSE(stream.read(0, &events));
  stream.append(event_of(1));
  stream.append(event_of(2));
  EXPECT_FALSE(stream.read(1, &events));
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].token_ids[0], 2);
  stream.close(absl::UnavailableError("rank 1"));
  EXPECT_TRUE(stream.read(2, &events));
  EXPECT_TRUE(events.empty());
  EXPECT_TRUE(stream.read(0, &events));
  EXPECT_EQ(events.size(), 2u);
  EXPECT_EQ(stream.status(), absl::UnavailableError("rank 1"));
}

TEST(StreamTest, WaitingEndsWithAnEventOrTheEnd) {
  Stream stream;
  std::thread writer([&] {
    for (int32_t id = 0; id < 100; ++id) stream.append(event_of(id));
    stream.close(absl::OkStatus());
  });
  std::vector<StreamEvent> events;
  size_t seen = 0;
  for (bool done = false; !done;) {
    stream.wait(seen);
    done = stream.read(seen, &events);
    seen += events.size();
  }
  EXPECT_EQ(seen, 100u);
  stream.wait(1000);  // Closed: returns at once.
  writer.join();
}

TEST(StreamTest, AListenerThatWasTakenBackIsNeverCalledAgain) {
  Stream stream;
  std::atomic<bool> stop = false;
  std::thread writer([&] {
    while (!stop) stream.append(event_of(1));
  });
  for (int i = 0; i < 50; ++i) {
    auto calls = std::make_unique<std::atomic<int>>(0);
    stream.set_listener([counter = calls.get()] { ++*counter; });
    EXPECT_GE(*calls, 1) << "once at once";
    stream.set_listener(nullptr);
    calls.reset();  // A late call would touch freed memory.
  }
  stop = true;
  writer.join();
}

TEST(StreamTest, FinishReasonsHaveNames) {
  EXPECT_STREQ(finish_reason_name(FinishReason::kNone), "");
  EXPECT_STREQ(finish_reason_name(FinishReason::kStop), "stop");
  EXPECT_STREQ(finish_reason_name(FinishReason::kLength), "length");
  EXPECT_STREQ(finish_reason_name(FinishReason::kCancelled), "cancelled");
}

}  // namespace
}  // namespace lockstep
