// SPDX-License-Identifier: Apache-2.0
// The log of events: offsets, bounds, waiting, listeners.
#include "coordinator/streams/stream.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>

namespace lockstep {
namespace {

StreamEvent event_of(int32_t id) {
  StreamEvent event;
  event.token_ids = {id};
  return event;
}

TEST(StreamTest, TheReaderGoesOnWhereItWasAndSeesTheEndOnce) {
  Stream stream;
  std::vector<StreamEvent> events;
  EXPECT_FALSE(stream.read(0, &events));
  stream.append(event_of(1)).IgnoreError();
  stream.append(event_of(2)).IgnoreError();
  EXPECT_FALSE(stream.read(0, &events));
  EXPECT_EQ(events.size(), 2u);
  EXPECT_FALSE(stream.read(1, &events));
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].token_ids[0], 2);
  EXPECT_FALSE(stream.read(0, &events));
  EXPECT_EQ(events.size(), 1u) << "read events are gone";
  stream.close(absl::UnavailableError("rank 1"));
  EXPECT_TRUE(stream.read(2, &events));
  EXPECT_TRUE(events.empty());
  EXPECT_EQ(stream.status(), absl::UnavailableError("rank 1"));
}

TEST(StreamTest, TooManyUnreadEventsEndTheStreamAndReadingMakesRoom) {
  StreamEvent event = event_of(1);
  event.text = std::string(1000, 'x');
  const int64_t bytes = bytes_of(event);
  Stream stream(3 * bytes);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(stream.append(event).ok());
  std::vector<StreamEvent> events;
  EXPECT_FALSE(stream.read(2, &events));
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(stream.append(event).ok()) << "two were read";
  StreamEvent other = event;
  other.index = 1;
  EXPECT_TRUE(stream.append(other).ok()) << "the bound is per choice";
  const absl::Status full = stream.append(event);
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(stream.append(other), full) << "no event in the middle is skipped";
  stream.close(absl::OkStatus());
  EXPECT_TRUE(stream.read(2, &events));
  EXPECT_EQ(events.size(), 4u);
  EXPECT_EQ(stream.status(), full);
}

TEST(StreamTest, LogProbabilitiesOfPromptsHaveOneBoundForAllStreams) {
  StreamEvent event;
  event.prompt_logprobs.assign(64, std::vector<Logprob>(21));
  const int64_t bytes = bytes_of(event);
  const std::shared_ptr<UnreadLimits> unread(new UnreadLimits{.scores = UnreadLimit(3 * bytes)});
  Stream stream(/*max_unread_bytes=*/bytes / 2, unread);
  auto other = std::make_unique<Stream>(bytes / 2, unread);
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(stream.append(event).ok()) << "above the bound of tokens";
  EXPECT_TRUE(stream.append(event_of(1)).ok()) << "tokens have their own bound";
  EXPECT_TRUE(other->append(event).ok());
  EXPECT_EQ(other->append(event).code(), absl::StatusCode::kResourceExhausted);
  std::vector<StreamEvent> events;
  stream.read(1, &events);
  EXPECT_TRUE(stream.append(event).ok()) << "one was read";
  other.reset();
  EXPECT_TRUE(stream.append(event).ok()) << "the other stream freed its bytes";
  stream.read(5, &events);
  EXPECT_TRUE(unread->scores.take(3 * bytes)) << "all bytes are free again";
  EXPECT_FALSE(unread->scores.take(1));
}

TEST(StreamTest, AllUnreadBytesHaveABoundThatCutsOnlySlowReaders) {
  StreamEvent large;
  large.text.assign(10'000, 'a');
  const int64_t bytes = bytes_of(large);
  const std::shared_ptr<UnreadLimits> unread(new UnreadLimits{.others = UnreadLimit(3 * bytes)});
  Stream slow(/*max_unread_bytes=*/100 * bytes, unread);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(slow.append(large).ok());
  EXPECT_EQ(slow.append(large).code(), absl::StatusCode::kResourceExhausted);
  {
    Stream quick(100 * bytes, unread);
    EXPECT_TRUE(quick.append(large).ok()) << "it has little unread";
    EXPECT_TRUE(quick.append(large).ok());
    EXPECT_EQ(quick.append(large).code(), absl::StatusCode::kResourceExhausted);
  }
  std::vector<StreamEvent> events;
  slow.read(3, &events);
  EXPECT_TRUE(unread->others.take(3 * bytes)) << "all bytes are free again";
  EXPECT_FALSE(unread->others.take(1));
}

TEST(StreamTest, OneEventOfAChoiceIsAlwaysKept) {
  Stream stream(10);
  StreamEvent large = event_of(1);
  large.prompt_logits.resize(1000);
  EXPECT_TRUE(stream.append(large).ok());
  EXPECT_FALSE(stream.append(event_of(2)).ok());
}

TEST(StreamTest, WaitingEndsWithAnEventOrTheEnd) {
  Stream stream;
  std::thread writer([&] {
    for (int32_t id = 0; id < 100; ++id) stream.append(event_of(id)).IgnoreError();
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
  stream.wait(1000);  // The stream is closed: it returns at once.
  writer.join();
}

TEST(StreamTest, ARemovedListenerIsNeverCalledAgain) {
  Stream stream;
  std::atomic<bool> stop = false;
  std::thread writer([&] {
    while (!stop) stream.notify();
  });
  for (int i = 0; i < 50; ++i) {
    auto calls = std::make_unique<std::atomic<int>>(0);
    stream.set_listener([counter = calls.get()] { ++*counter; });
    EXPECT_GE(*calls, 1) << "the first call is immediate";
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
