// SPDX-License-Identifier: Apache-2.0
// A log with several readers: offsets, pieces, ends, listeners.
#include "coordinator/streams/event_log.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace lockstep {
namespace {

StreamEvent event_of(int32_t id, size_t text_bytes = 0) {
  return {.token_ids = {id}, .text = std::string(text_bytes, 'x')};
}

std::unique_ptr<StreamReader> open(const std::shared_ptr<EventLog>& log, size_t from = 0) {
  absl::StatusOr<std::unique_ptr<StreamReader>> reader = log->open(from);
  EXPECT_TRUE(reader.ok()) << reader.status();
  return *std::move(reader);
}

TEST(EventLogTest, EachReaderFollowsTheLogFromItsOwnOffset) {
  const auto log = std::make_shared<EventLog>();
  for (int32_t id = 0; id < 3; ++id) log->append(event_of(id));
  const auto first = open(log);
  const auto second = open(log, 2);
  std::vector<StreamEvent> events;
  EXPECT_FALSE(first->read(0, &events));
  EXPECT_EQ(events.size(), 3u);
  EXPECT_FALSE(second->read(2, &events));
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].token_ids[0], 2);
  EXPECT_FALSE(first->read(0, &events));
  EXPECT_EQ(events.size(), 3u) << "reading frees nothing";
  log->append(event_of(3));
  log->close(absl::UnavailableError("rank 1"));
  EXPECT_TRUE(first->read(3, &events));
  EXPECT_EQ(events.size(), 1u);
  EXPECT_EQ(first->status(), absl::UnavailableError("rank 1"));
  EXPECT_TRUE(second->read(4, &events));
  EXPECT_TRUE(events.empty());
}

TEST(EventLogTest, AReaderGetsPiecesAndTheEndWithTheLastOne) {
  const auto log = std::make_shared<EventLog>();
  for (int32_t id = 0; id < 100; ++id) log->append(event_of(id, 10'000));
  log->close(absl::OkStatus());
  const auto reader = open(log);
  std::vector<StreamEvent> events;
  size_t offset = 0;
  int pieces = 0;
  for (bool ended = false; !ended; ++pieces) {
    ended = reader->read(offset, &events);
    ASSERT_FALSE(events.empty());
    ASSERT_LE(events.size(), 7u);
    offset += events.size();
  }
  EXPECT_EQ(offset, 100u);
  EXPECT_GT(pieces, 10);
}

TEST(EventLogTest, AnOffsetAfterTheEndIsOutOfRange) {
  const auto log = std::make_shared<EventLog>();
  log->append(event_of(0));
  const auto waiting = open(log, 1000);
  std::vector<StreamEvent> events;
  EXPECT_FALSE(waiting->read(1000, &events)) << "the event may still arrive";
  log->close(absl::OkStatus());
  EXPECT_TRUE(waiting->read(1000, &events));
  EXPECT_TRUE(log->open(1).ok());
  EXPECT_TRUE(log->open(2).ok()) << "the offset of the end itself";
  EXPECT_EQ(log->open(3).status().code(), absl::StatusCode::kOutOfRange);
}

TEST(EventLogTest, DroppingALogEndsItsUnfinishedReaders) {
  const auto log = std::make_shared<EventLog>();
  log->append(event_of(0));
  const auto reader = open(log);
  log->close(absl::OkStatus());
  int calls = 0;
  reader->set_listener([&] { ++calls; });
  log->drop();
  EXPECT_EQ(calls, 2);
  std::vector<StreamEvent> events;
  EXPECT_TRUE(reader->read(0, &events));
  EXPECT_TRUE(events.empty());
  EXPECT_EQ(reader->status(), event_log_is_gone());
  EXPECT_EQ(log->open(0).status(), event_log_is_gone());
}

TEST(EventLogTest, TheNumberOfReadersIsLimited) {
  const auto log = std::make_shared<EventLog>();
  std::vector<std::unique_ptr<StreamReader>> readers;
  for (size_t i = 0; i < kMaxLogReaders; ++i) readers.push_back(open(log));
  EXPECT_EQ(log->open(0).status().code(), absl::StatusCode::kResourceExhausted);
  readers.pop_back();
  EXPECT_TRUE(log->open(0).ok());
}

TEST(EventLogTest, AReaderWhoseClientIsGoneEndsAtOnceAndNoOtherDoes) {
  const auto log = std::make_shared<EventLog>();
  log->append(event_of(0));
  const auto gone = open(log);
  const auto other = open(log);
  int calls = 0;
  gone->set_listener([&] { ++calls; });
  gone->abandon();
  EXPECT_EQ(calls, 2);
  std::vector<StreamEvent> events;
  EXPECT_TRUE(gone->read(0, &events));
  EXPECT_TRUE(events.empty());
  EXPECT_TRUE(absl::IsCancelled(gone->status()));
  EXPECT_FALSE(other->read(0, &events));
  EXPECT_EQ(events.size(), 1u);
}

TEST(EventLogTest, AListenerMayEndItsOwnReader) {
  const auto log = std::make_shared<EventLog>();
  std::unique_ptr<StreamReader> reader = open(log);
  bool armed = false;
  reader->set_listener([&] {
    if (armed) reader.reset();
  });
  armed = true;
  log->append(event_of(0));
  EXPECT_EQ(reader, nullptr);
  log->append(event_of(1));
}

TEST(EventLogTest, ARemovedListenerIsNeverCalledAgain) {
  const auto log = std::make_shared<EventLog>();
  std::atomic<bool> stop = false;
  std::thread writer([&] {
    while (!stop) log->append(event_of(1));
  });
  for (int i = 0; i < 50; ++i) {
    const auto reader = open(log);
    auto calls = std::make_unique<std::atomic<int>>(0);
    reader->set_listener([counter = calls.get()] { ++*counter; });
    EXPECT_GE(*calls, 1) << "the first call is immediate";
    reader->set_listener(nullptr);
    calls.reset();  // A late call would touch freed memory.
  }
  stop = true;
  writer.join();
}

}  // namespace
}  // namespace lockstep
