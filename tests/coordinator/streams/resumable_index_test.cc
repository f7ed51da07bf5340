// SPDX-License-Identifier: Apache-2.0
// The names, lifetimes and memory of resumable streams.
#include "coordinator/streams/resumable_index.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "coordinator/streams/event_log.h"

namespace lockstep {
namespace {

constexpr int64_t kMinute = 60'000;

// The options with memory for this many streams without events.
ResumableOptions room_for(int64_t streams) {
  return {.max_bytes = streams * kResumableStreamBytes, .after_end_ms = kMinute};
}

ResumableName name(const std::string& id, const std::string& owner = "alice") {
  return {.owner = owner, .id = id};
}

absl::StatusCode code_of(const ResumableIndex& index, const ResumableName& name) {
  return index.find(name).status().code();
}

TEST(ResumableIndexTest, ANameIsOneStreamForEachOwner) {
  ResumableIndex index(room_for(9));
  EXPECT_TRUE(index.add(name("a"), nullptr, 0).ok());
  EXPECT_EQ(index.add(name("a"), nullptr, 0).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_TRUE(index.add(name("a", "bob"), nullptr, 0).ok());
  EXPECT_TRUE(index.find(name("a")).ok());
  EXPECT_EQ(code_of(index, name("a", "eve")), absl::StatusCode::kNotFound);
  EXPECT_EQ(code_of(index, name("b")), absl::StatusCode::kNotFound);
  index.end(name("a"), 0);
  EXPECT_EQ(index.add(name("a"), nullptr, 0).code(), absl::StatusCode::kAlreadyExists)
      << "the name is taken while the stream is kept";
}

TEST(ResumableIndexTest, AnEndedStreamIsKeptForItsTimeAndThenRememberedAsGone) {
  ResumableIndex index(room_for(9));
  ASSERT_TRUE(index.add(name("a"), nullptr, 0).ok());
  index.tick(100 * kMinute);
  EXPECT_TRUE(index.find(name("a")).ok()) << "a running stream does not expire";
  EXPECT_EQ(index.wake_at(), std::nullopt);
  index.end(name("a"), 7);
  EXPECT_EQ(index.wake_at(), 7 + kMinute);
  index.tick(6 + kMinute);
  EXPECT_TRUE(index.find(name("a")).ok());
  index.tick(7 + kMinute);
  EXPECT_EQ(index.find(name("a")).status(), event_log_is_gone());
  EXPECT_EQ(code_of(index, name("a", "bob")), absl::StatusCode::kNotFound);
  EXPECT_EQ(index.take_dropped().size(), 1u);
  EXPECT_EQ(index.take_dropped().size(), 0u);
  EXPECT_EQ(index.counts().bytes, 0);
  EXPECT_TRUE(index.add(name("a"), nullptr, 0).ok()) << "the name is free again";
  EXPECT_TRUE(index.find(name("a")).ok());
}

TEST(ResumableIndexTest, TheOldestEndedStreamMakesRoomAndARunningOneDoesNot) {
  ResumableIndex index(room_for(4));
  for (const char* id : {"first", "second", "runs"}) {
    ASSERT_TRUE(index.add(name(id), nullptr, 0).ok());
  }
  index.end(name("second"), 1);
  index.end(name("first"), 2);
  EXPECT_TRUE(index.grow(name("runs"), kResumableStreamBytes).ok()) << "there is room";
  EXPECT_TRUE(index.grow(name("runs"), 1).ok());
  EXPECT_EQ(code_of(index, name("second")), absl::StatusCode::kOutOfRange);
  EXPECT_TRUE(index.find(name("first")).ok());
  EXPECT_TRUE(index.add(name("new"), nullptr, 0).ok());
  EXPECT_EQ(code_of(index, name("first")), absl::StatusCode::kOutOfRange);
  const absl::Status full = index.grow(name("new"), kResumableStreamBytes);
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(full.message().find("--resume-bytes"), std::string::npos) << full;
  EXPECT_EQ(index.add(name("more"), nullptr, kResumableStreamBytes).code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(index.counts().streams, 2);
  EXPECT_EQ(index.counts().bytes, 3 * kResumableStreamBytes + 1)
      << "a refused event does not count";
}

TEST(ResumableIndexTest, NoOwnerLosesItsShareToOthers) {
  ResumableIndex index(room_for(8));
  for (const char* id : {"1", "2", "3"}) {
    ASSERT_TRUE(index.add(name(id, "bob"), nullptr, 0).ok());
    index.end(name(id, "bob"), 0);
  }
  for (int i = 0; i < 100; ++i) {
    const ResumableName one = name(std::to_string(i));
    ASSERT_TRUE(index.add(one, nullptr, 0).ok());
    index.end(one, 1 + i);
  }
  for (const char* id : {"1", "2", "3"}) EXPECT_TRUE(index.find(name(id, "bob")).ok()) << id;
  EXPECT_EQ(code_of(index, name("94")), absl::StatusCode::kOutOfRange);
  EXPECT_TRUE(index.find(name("95")).ok());
  ASSERT_TRUE(index.add(name("4", "bob"), nullptr, 0).ok()) << "alice is above her share";
  EXPECT_TRUE(index.find(name("1", "bob")).ok());
  EXPECT_EQ(code_of(index, name("95")), absl::StatusCode::kOutOfRange);
  ASSERT_TRUE(index.add(name("5", "bob"), nullptr, 0).ok()) << "his own oldest goes";
  EXPECT_EQ(code_of(index, name("1", "bob")), absl::StatusCode::kOutOfRange);
  EXPECT_TRUE(index.find(name("96")).ok());
}

TEST(ResumableIndexTest, AThirdOwnerMakesSharesSmaller) {
  ResumableIndex index(room_for(6));
  for (const char* owner : {"alice", "bob"}) {
    for (const char* id : {"1", "2", "3"}) {
      ASSERT_TRUE(index.add(name(id, owner), nullptr, 0).ok());
      index.end(name(id, owner), owner[0]);
    }
  }
  for (const char* id : {"1", "2"}) ASSERT_TRUE(index.add(name(id, "eve"), nullptr, 0).ok());
  EXPECT_EQ(code_of(index, name("1", "alice")), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(code_of(index, name("1", "bob")), absl::StatusCode::kOutOfRange);
  const absl::Status full = index.add(name("3", "eve"), nullptr, 0);
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted) << "all of hers run";
  EXPECT_TRUE(index.find(name("2", "alice")).ok());
}

TEST(ResumableIndexTest, TheNumberOfTinyStreamsIsBoundedAndOldNamesAreForgotten) {
  ResumableIndex index(room_for(16));
  for (int i = 0; i < 100'000; ++i) {
    const ResumableName one = name(std::to_string(i));
    ASSERT_TRUE(index.add(one, nullptr, 0).ok());
    index.end(one, 0);
  }
  EXPECT_EQ(index.counts().streams, 16);
  EXPECT_EQ(code_of(index, name("0")), absl::StatusCode::kNotFound);
  const int gone = 100'000 - 16;
  EXPECT_EQ(code_of(index, name(std::to_string(gone - 1))), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(code_of(index, name(std::to_string(gone - static_cast<int>(kMaxGoneNames)))),
            absl::StatusCode::kOutOfRange);
  EXPECT_EQ(code_of(index, name(std::to_string(gone - static_cast<int>(kMaxGoneNames) - 1))),
            absl::StatusCode::kNotFound);
}

TEST(ResumableIndexTest, AStreamThatNeverBeganLeavesNoTrace) {
  ResumableIndex index(room_for(1));
  ASSERT_TRUE(index.add(name("a"), nullptr, 0).ok());
  index.remove(name("a"));
  EXPECT_EQ(index.counts().bytes, 0);
  EXPECT_EQ(index.counts().streams, 0);
  EXPECT_EQ(code_of(index, name("a")), absl::StatusCode::kNotFound);
  EXPECT_TRUE(index.take_dropped().empty());
}

TEST(ResumableIndexTest, CountsMatchTheStreamsAfterRandomOperations) {
  std::mt19937_64 random(5);
  SCOPED_TRACE("seed 5");
  ResumableIndex index(room_for(20));
  std::map<ResumableName, int64_t> running;  // The bytes of each running stream.
  int64_t now = 0;
  int64_t added = 0;
  int64_t refused = 0;
  int64_t dropped = 0;
  int64_t ended = 0;
  for (int i = 0; i < 20'000; ++i) {
    const uint64_t drawn = random() % 60;
    const ResumableName id = name(std::to_string(drawn), drawn < 40 ? "alice" : "bob");
    const auto found = running.find(id);
    now += static_cast<int64_t>(random() % 3000);
    index.tick(now);
    if (found == running.end()) {
      const int64_t bytes = static_cast<int64_t>(random() % 5000);
      const absl::Status status = index.add(id, nullptr, bytes);
      refused += absl::IsResourceExhausted(status) ? 1 : 0;
      if (status.ok()) running[id] = bytes + kResumableStreamBytes;
      added += status.ok() ? 1 : 0;
    } else if (random() % 3 != 0) {
      const int64_t bytes = static_cast<int64_t>(random() % 3000);
      if (index.grow(id, bytes).ok()) found->second += bytes;
    } else {
      index.end(id, now);
      running.erase(found);
      ++ended;
    }
    dropped += static_cast<int64_t>(index.take_dropped().size());
    int64_t bytes = 0;
    for (const auto& [one, size] : running) {
      ASSERT_TRUE(index.find(one).ok()) << "a running stream is always found";
      bytes += size;
    }
    ASSERT_LE(bytes, index.counts().bytes);
    ASSERT_LE(index.counts().bytes, 20 * kResumableStreamBytes);
    ASSERT_EQ(index.counts().streams, added - dropped);
  }
  EXPECT_GT(refused, 100);
  EXPECT_GT(dropped, 1000);
  while (!running.empty()) {
    index.end(running.begin()->first, now);
    running.erase(running.begin());
  }
  index.tick(now + kMinute);
  EXPECT_EQ(index.counts().bytes, 0);
  EXPECT_EQ(index.counts().streams, 0);
}

TEST(ResumableIndexTest, AnIdMustFitInAPath) {
  for (const char* id : {"a", "chatcmpl-1f", "0A9_~.:-", "550e8400-e29b-41d4-a716-446655440000"}) {
    EXPECT_TRUE(check_resumable_id(id).ok()) << id;
  }
  EXPECT_TRUE(check_resumable_id(std::string(128, 'x')).ok());
  const std::string long_id(129, 'x');
  for (const char* id :
       {"", ".", "..", "-a", "a/b", "a b", "a%2f", "a?b", "a\r\nb", "\xc3\xa4", long_id.c_str()}) {
    EXPECT_EQ(check_resumable_id(id).code(), absl::StatusCode::kInvalidArgument) << id;
  }
}

}  // namespace
}  // namespace lockstep
