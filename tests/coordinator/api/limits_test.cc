// SPDX-License-Identifier: Apache-2.0
// The table of limits: requests are checked by it, and the comments of generate.proto agree with
// it.
#include "coordinator/api/limits.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>

#include "base/source_dir.h"
#include "base/status.h"
#include "proto/generate.pb.h"

namespace lockstep {
namespace {

v1::GenerateRequest good() {
  v1::GenerateRequest message;
  message.set_prompt("Once");
  return message;
}

template <typename Message>
void expect_refused(const Message& message, const std::string& text) {
  const absl::Status status = check_limits(message);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
  EXPECT_EQ(message_of(status), text);
}

TEST(LimitsTest, EveryRowIsAFieldWhoseCommentStatesTheLimit) {
  std::ifstream file(LOCKSTEP_SOURCE_DIR "/proto/generate.proto");
  std::map<std::string, std::string> comments;  // By "Message.field".
  std::string message;
  std::string above;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string first;
    words >> first;
    if (first == "message") words >> message;
    above += line + " ";
    if (line.find(" = ") == std::string::npos || first == "//") continue;
    const std::string left = line.substr(0, line.find(" = "));
    comments[message + "." + left.substr(left.rfind(' ') + 1)] = std::exchange(above, "");
  }
  for (const FieldLimit& limit : field_limits()) {
    const std::string name = std::string(limit.message) + "." + limit.field;
    ASSERT_TRUE(comments.contains(name)) << name;
    EXPECT_NE(comments[name].find(describe(limit)), std::string::npos)
        << name << ": must be \"" << describe(limit) << "\" in: " << comments[name];
  }
}

TEST(LimitsTest, BothEndsOfEveryRangeAreAcceptedAndNothingBeyond) {
  for (const FieldLimit& limit : field_limits()) {
    if (limit.measure != Measure::kValue || limit.field == std::string("logit_bias")) continue;
    v1::GenerateRequest message = good();
    const auto* field = message.GetDescriptor()->FindFieldByName(limit.field);
    const bool is_float = field->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_FLOAT;
    const auto accepts = [&](double value) {
      if (is_float) {
        message.GetReflection()->SetFloat(&message, field, static_cast<float>(value));
      } else {
        message.GetReflection()->SetInt32(&message, field, static_cast<int32_t>(value));
      }
      return check_limits(message).ok();
    };
    const double min = static_cast<double>(limit.min);
    const double max = static_cast<double>(limit.max);
    EXPECT_EQ(accepts(min), limit.min_included) << limit.field;
    EXPECT_TRUE(accepts(max)) << limit.field;
    const double beyond = is_float ? std::nextafterf(static_cast<float>(max), INFINITY) : max + 1;
    EXPECT_FALSE(accepts(beyond)) << limit.field;
    EXPECT_FALSE(accepts(is_float ? -std::numeric_limits<float>::max() : min - 1)) << limit.field;
    if (is_float) {
      for (const float bad : {NAN, INFINITY, -INFINITY}) EXPECT_FALSE(accepts(bad)) << limit.field;
    }
  }
}

TEST(LimitsTest, IntegersAreComparedExactly) {
  v1::GenerateRequest message = good();
  message.set_max_tokens((1 << 30) + 40);
  expect_refused(message, "max_tokens: must be 0 to 1073741824, found 1073741864");
  message.set_max_tokens(std::numeric_limits<int32_t>::max());
  expect_refused(message, "max_tokens: must be 0 to 1073741824, found 2147483647");
}

TEST(LimitsTest, MessagesSayWhatMustBeAndWhatWasFound) {
  v1::GenerateRequest message = good();
  message.set_top_p(1.5f);
  expect_refused(message, "top_p: must be 0 to 1, found 1.5");
  message = good();
  message.set_n(129);
  expect_refused(message, "n: must be 1 to 128, found 129");
  message = good();
  (*message.mutable_logit_bias())[7] = 101;
  expect_refused(message, "logit_bias: must be -100 to 100, found 101");
  message = good();
  message.add_stop("");
  expect_refused(message, "stop: must have 1 to 4096 bytes, found 0");
  message.set_stop(0, std::string(4097, 'a'));
  expect_refused(message, "stop: must have 1 to 4096 bytes, found 4097");
  message = good();
  message.set_request_id(std::string(129, 'a'));
  expect_refused(message, "request_id: must have up to 128 bytes, found 129");
}

TEST(LimitsTest, MessagesInListsAreCheckedAndNamedByTheirIndex) {
  v1::GenerateRequest message;
  message.mutable_chat()->add_messages()->set_role("user");
  EXPECT_TRUE(check_limits(message).ok());
  v1::ChatMessage* second = message.mutable_chat()->add_messages();
  expect_refused(message, "chat.messages[1].role: must have 1 to 64 bytes, found 0");
  second->set_role("assistant");
  second->add_tool_calls()->set_name("f");
  EXPECT_TRUE(check_limits(message).ok());
  second->add_tool_calls()->set_name(std::string(257, 'f'));
  expect_refused(message,
                 "chat.messages[1].tool_calls[1].name: must have 1 to 256 bytes, found 257");
}

TEST(LimitsTest, CountsOfEntriesAreBounded) {
  v1::GenerateRequest message = good();
  for (int i = 0; i < 1024; ++i) message.add_stop_ids(5);
  EXPECT_TRUE(check_limits(message).ok());
  message.add_stop_ids(5);
  expect_refused(message, "stop_ids: must have up to 1024 entries, found 1025");
  message = good();
  for (int i = 0; i < 65; ++i) message.add_stop("a");
  expect_refused(message, "stop: must have up to 64 entries, found 65");
  message = good();
  for (int i = 0; i < 1025; ++i) (*message.mutable_logit_bias())[i] = 1;
  expect_refused(message, "logit_bias: must have up to 1024 entries, found 1025");
  message.Clear();
  message.mutable_prompt_ids()->mutable_ids()->Resize((1 << 20) + 1, 1);
  expect_refused(message, "prompt_ids.ids: must have up to 1048576 entries, found 1048577");
  message.Clear();
  message.mutable_chat();
  expect_refused(message, "chat.messages: must have 1 to 16384 entries, found 0");
  v1::DetokenizeRequest detokenize;
  detokenize.mutable_ids()->Resize((1 << 18) + 1, 1);
  expect_refused(detokenize, "ids: must have up to 262144 entries, found 262145");
}

TEST(LimitsTest, CallsAndPartsOfAllMessagesAreBoundedTogether) {
  v1::ChatMessages chat;
  for (int64_t i = 0; i < kMaxToolCalls / 256; ++i) {
    v1::ChatMessage* message = chat.add_messages();
    message->set_role("assistant");
    for (int call = 0; call < 256; ++call) message->add_tool_calls()->set_name("f");
    for (int part = 0; part < 512; ++part) message->add_content_parts("");
  }
  EXPECT_TRUE(check_limits(chat).ok()) << check_limits(chat);
  v1::ChatMessage* last = chat.add_messages();
  last->set_role("assistant");
  last->add_tool_calls()->set_name("f");
  expect_refused(chat, "messages: must have up to 16384 tool_calls in all messages, found 16385");
  last->clear_tool_calls();
  last->add_content_parts("");
  expect_refused(chat,
                 "messages: must have up to 32768 content_parts in all messages, found 32769");
}

}  // namespace
}  // namespace lockstep
