// SPDX-License-Identifier: Apache-2.0
#include "coordinator/streams/notifier.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <memory>
#include <thread>

namespace lockstep {
namespace {

TEST(NotifierTest, AReaderIsCalledOnTheNotifiersThreadOncePerNotification) {
  Notifier notifier;
  const auto stream = std::make_shared<Stream>();
  std::atomic<int> calls = 0;
  std::latch called(2);  // One call on registering, and one for all three changes.
  std::thread::id caller;
  stream->set_listener([&] {
    ++calls;
    caller = std::this_thread::get_id();
    called.count_down();
  });
  for (int i = 0; i < 3; ++i) notifier.changed(stream);
  EXPECT_EQ(calls, 1);
  notifier.notify();
  called.wait();
  stream->set_listener(nullptr);
  EXPECT_EQ(calls, 2);
  EXPECT_NE(caller, std::this_thread::get_id());
}

TEST(NotifierTest, PendingChangesAreDeliveredBeforeTheNotifierEnds) {
  std::atomic<int> calls = 0;
  const auto one = std::make_shared<Stream>();
  const auto other = std::make_shared<Stream>();
  {
    Notifier notifier;
    for (const auto& stream : {one, other}) stream->set_listener([&] { ++calls; });
    notifier.changed(one);
    notifier.notify();
    notifier.changed(other);
  }
  EXPECT_EQ(calls, 4);
}

TEST(NotifierTest, ABusyReaderDelaysNoCaller) {
  Notifier notifier;
  std::latch free(1);
  std::atomic<int> calls = 0;
  std::atomic<bool> waits = false;
  const auto stream = std::make_shared<Stream>();
  stream->set_listener([&] {
    ++calls;
    if (waits) free.wait();
  });
  waits = true;
  for (int i = 0; i < 100; ++i) {  // All calls return.
    notifier.changed(stream);
    notifier.notify();
  }
  EXPECT_LE(calls, 2);  // One on registering, and one that waits.
  free.count_down();
}

}  // namespace
}  // namespace lockstep
