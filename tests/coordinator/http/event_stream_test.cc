// SPDX-License-Identifier: Apache-2.0
#include "coordinator/http/event_stream.h"

#include <gtest/gtest.h>

namespace lockstep::http {
namespace {

std::string event(std::string_view data, std::optional<uint64_t> id = std::nullopt) {
  std::string bytes;
  append_event(data, id, &bytes);
  return bytes;
}

TEST(EventStreamTest, AnEventHasItsIdAndItsData) {
  EXPECT_EQ(event("{\"a\": 1}", 7), "id: 7\ndata: {\"a\": 1}\n\n");
  EXPECT_EQ(event("x"), "data: x\n\n");
  EXPECT_EQ(event(""), "data: \n\n");
}

TEST(EventStreamTest, LinesOfDataStayWithinTheirEvent) {
  EXPECT_EQ(event("a\nb\r\nc\rd"), "data: a\ndata: b\ndata: c\ndata: d\n\n");
  EXPECT_EQ(event("a\n\nevent: evil"), "data: a\ndata: \ndata: event: evil\n\n");
  EXPECT_EQ(event("a\n"), "data: a\ndata: \n\n");
}

TEST(EventStreamTest, TheLastEventIsOpenAIsDone) {
  std::string bytes = event("x");
  append_done(&bytes);
  EXPECT_EQ(bytes, "data: x\n\ndata: [DONE]\n\n");
}

TEST(EventStreamTest, SilenceIsFilledWithoutEndingAnEvent) {
  class Silent final : public EventSource {
   public:
    using EventSource::EventSource;
    State read(std::string*) override { return State::kMore; }
  };
  EXPECT_EQ(Silent().keep_alive(), "\n");
  EXPECT_EQ(Silent(/*has_ids=*/true).keep_alive(), ": keep-alive\n");
}

TEST(EventStreamTest, NoCacheMayKeepTheStream) {
  const Response head = event_stream_head();
  EXPECT_EQ(head.headers[0].second.substr(0, 17), "text/event-stream");
  EXPECT_EQ(head.headers[1].second, "no-cache");
}

}  // namespace
}  // namespace lockstep::http
