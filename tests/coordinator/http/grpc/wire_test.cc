// SPDX-License-Identifier: Apache-2.0
// gRPC's form of calls: messages, deadlines and statuses; and requests that are no calls.
#include "coordinator/http/grpc/wire.h"

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.pb.h>
#include <gtest/gtest.h>

#include "base/status.h"
#include "base/system/clock.h"
#include "proto/health.pb.h"
#include "tests/support/network/http2.h"

namespace lockstep {
namespace {

constexpr size_t kMaxBytes = 1 << 20;

// A message of gRPC. `flag`: 1 if it is compressed. `size`: the size in the prefix; -1: the true
// size.
std::string message(const std::string& bytes, char flag = 0, int64_t size = -1) {
  const auto prefix = static_cast<uint32_t>(size < 0 ? static_cast<int64_t>(bytes.size()) : size);
  return flag + testing::http2::big_endian(prefix, 4) + bytes;
}

http::Request call(const std::string& name, const std::string& value) {
  return {.method = "POST", .headers = {{"content-type", "application/grpc"}, {name, value}}};
}

TEST(WireTest, MessagesAreTakenAtAnySplit) {
  const std::vector<std::string> messages = {"", "a", std::string(300, 'b'), "", "last"};
  std::string bytes;
  for (const std::string& one : messages) bytes += message(one);
  for (size_t split = 1; split <= bytes.size(); ++split) {
    std::string buffer;
    std::vector<std::string> taken;
    for (size_t at = 0; at < bytes.size(); at += split) {
      buffer += bytes.substr(at, split);
      std::string_view left = buffer;
      while (true) {
        const auto one = take_message(&left, /*max=*/300);
        ASSERT_TRUE(one.ok()) << one.status();
        if (!one->has_value()) break;
        taken.emplace_back(**one);
      }
      buffer = std::string(left);
    }
    EXPECT_EQ(taken, messages) << split;
    EXPECT_EQ(buffer, "");
  }
}

TEST(WireTest, AMessageIsRefusedByItsPrefixAlone) {
  std::string_view bytes;
  const std::string large = message("", 0, 301);
  bytes = large;
  const auto too_large = take_message(&bytes, /*max=*/300);
  EXPECT_EQ(too_large.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(too_large.status().message(), "a message: must have at most 300 bytes, found 301");
  const std::string largest = message("", 0, 0xffffffff);
  bytes = largest;
  EXPECT_EQ(take_message(&bytes, /*max=*/300).status().message(),
            "a message: must have at most 300 bytes, found 4294967295");
  for (const char flag : {'\x01', '\x02', '\xff'}) {
    const std::string compressed = message("abc", flag);
    bytes = compressed;
    EXPECT_EQ(take_message(&bytes, /*max=*/300).status().code(), absl::StatusCode::kUnimplemented);
  }
}

TEST(WireTest, ACallHasOneMessage) {
  http::Request request;
  const auto code_of = [&](const std::string& body) {
    request.body = body;
    return message_in(request, kMaxBytes).status().code();
  };
  EXPECT_EQ(code_of(message("abc")), absl::StatusCode::kOk);
  EXPECT_EQ(*message_in(request, kMaxBytes), "abc");
  EXPECT_EQ(code_of(message("")), absl::StatusCode::kOk);
  for (const std::string& body :
       {std::string(), std::string("\0\0\0", 3), message("abc", 0, 4), message("abc", 0, 2),
        message("abc") + message("abc"), message("abc") + '\0'}) {
    EXPECT_EQ(code_of(body), absl::StatusCode::kInternal) << ::testing::PrintToString(body);
  }
  EXPECT_EQ(code_of(message("abc", 1)), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(code_of(message("", 0, kMaxBytes + 1)), absl::StatusCode::kResourceExhausted);
}

// FileDescriptorProto has repeated messages and texts, in several depths.
TEST(WireTest, TheValuesOfAMessageAreCountedBeforeItIsParsed) {
  const auto parsed = [](const std::string& bytes) {
    google::protobuf::FileDescriptorProto file;
    return parse(bytes, &file);
  };
  std::string flat, deep;
  for (int64_t i = 0; i < kMaxValues; ++i) flat += std::string("\x22\x00", 2);      // message_type
  for (int64_t i = 0; i < kMaxValues - 1; ++i) deep += std::string("\x12\x00", 2);  // its fields
  std::string nested = "\x22";
  for (size_t size = deep.size(); size > 0; size >>= 7) {
    nested += static_cast<char>((size & 127) | (size > 127 ? 128 : 0));
  }
  nested += deep;
  EXPECT_TRUE(parsed(flat).ok()) << parsed(flat);
  EXPECT_TRUE(parsed(nested).ok()) << parsed(nested);
  for (const std::string& full : {flat, nested}) {
    for (const std::string& more : {std::string("\x22\x00", 2), std::string("\x0a\x01x")}) {
      EXPECT_EQ(parsed(full + more).message(),
                "FileDescriptorProto: must have at most 262144 messages and texts, found more");
    }
  }
  EXPECT_TRUE(parsed(flat + std::string("\x50\x01\x52\x02\x01\x02")).ok()) << "numbers";
  EXPECT_THAT(parsed(flat + "\x22\x7f").message(), ::testing::HasSubstr("must be a protobuf"));
  std::string groups;
  for (int64_t i = 0; i <= kMaxValues; ++i) groups += "\x7b\x7c";  // Unknown, and empty.
  EXPECT_THAT(parsed(groups).message(), ::testing::HasSubstr("found more"));
  std::string inner = "\x7b";
  for (int64_t i = 0; i <= kMaxValues; ++i) inner += "\x7b\x7c";
  EXPECT_THAT(parsed(inner + "\x7c").message(), ::testing::HasSubstr("found more"));
}

TEST(WireTest, AMessageThatWasAppendedCanBeReadBack) {
  grpc::health::v1::HealthCheckRequest request;
  request.set_service(std::string(70'000, 's'));
  std::string bytes = message("before");
  append_message(request, &bytes);
  std::string_view left = bytes;
  EXPECT_EQ(**take_message(&left, 1 << 20), "before");
  grpc::health::v1::HealthCheckRequest read;
  EXPECT_TRUE(parse(**take_message(&left, 1 << 20), &read).ok());
  EXPECT_EQ(read.service(), request.service());
  EXPECT_EQ(left, "");
}

TEST(WireTest, EveryUnitOfADeadlineIsRead) {
  const std::pair<const char*, int64_t> cases[] = {
      {"2H", 7'200'000},         {"3M", 180'000},    {"100S", 100'000},
      {"1500m", 1500},           {"2500000u", 2500}, {"99999999n", 99},
      {"99999999m", 99'999'999}, {"0S", 0},          {"8760H", 31'536'000'000}};
  for (const auto& [timeout, ms] : cases) {
    const int64_t before = steady_now_ms();
    const int64_t deadline = deadline_ms_of(call("grpc-timeout", timeout));
    EXPECT_GE(deadline, before + ms) << timeout;
    EXPECT_LE(deadline, steady_now_ms() + ms) << timeout;
  }
}

TEST(WireTest, AnInvalidOrVeryLateDeadlineIsNoLimit) {
  for (const char* timeout : {"", "S", "5", "5s", "5 S", " 5S", "-5S", "+5S", "5.5S", "0x5S", "5SS",
                              "123456789S", "S5", "1e3S", "8761H", "99999999H", "\xff\xff"}) {
    EXPECT_EQ(deadline_ms_of(call("grpc-timeout", timeout)), 0) << timeout;
  }
  EXPECT_EQ(deadline_ms_of(call("other", "5S")), 0);
}

TEST(WireTest, TheMessageOfAStatusIsPercentEncoded) {
  const auto encoded = [](const std::string& text) {
    return trailers_of(absl::InvalidArgumentError(text)).at(1).second;
  };
  EXPECT_EQ(encoded("must be 1, found 2; ~!\"#$&"), "must be 1, found 2; ~!\"#$&");
  EXPECT_EQ(encoded("100%"), "100%25");
  EXPECT_EQ(encoded("\xc3\xa9\n\r\t\x7f\x1f"), "%C3%A9%0A%0D%09%7F%1F");
  EXPECT_EQ(encoded(std::string("a\0b", 3)), "a%00b");
  EXPECT_EQ(encoded(std::string(5000, 'x')), std::string(4096, 'x'));
  EXPECT_EQ(trailers_of(absl::OkStatus()), (http::Headers{{"grpc-status", "0"}}));
  EXPECT_EQ(trailers_of(absl::NotFoundError("no")),
            (http::Headers{{"grpc-status", "5"}, {"grpc-message", "no"}}));
}

TEST(WireTest, RefusalsOfTheHttpServerBecomeGrpcStatuses) {
  const std::pair<int, const char*> cases[] = {{401, "16"}, {408, "4"}, {413, "8"},  {429, "8"},
                                               {431, "8"},  {503, "8"}, {400, "13"}, {500, "13"}};
  for (const auto& [http_status, grpc_status] : cases) {
    const http::Response response =
        render_refused_call({.status = http_status, .code = "x", .message = "a 100% refusal"});
    EXPECT_EQ(response.status, 200);
    EXPECT_EQ(response.body, "");
    const http::Request as_request = {.headers = response.headers};
    EXPECT_EQ(as_request.header("content-type"), "application/grpc");
    EXPECT_EQ(as_request.header("grpc-status"), grpc_status) << http_status;
    EXPECT_EQ(as_request.header("grpc-message"), "a 100%25 refusal");
  }
}

TEST(WireTest, OnlyPostsOfGrpcWithoutCompressionAreCalls) {
  EXPECT_TRUE(check_call(call("te", "trailers")).ok());
  EXPECT_TRUE(check_call(call("grpc-encoding", "identity")).ok());
  EXPECT_EQ(check_call(call("grpc-encoding", "gzip")).code(), absl::StatusCode::kUnimplemented);
  http::Request request = call("te", "trailers");
  request.headers[0].second = "application/grpc+proto";
  EXPECT_TRUE(check_call(request).ok());
  request.headers[0].second = "application/json";
  EXPECT_EQ(check_call(request).code(), absl::StatusCode::kInvalidArgument);
  request.headers.clear();
  EXPECT_EQ(check_call(request).code(), absl::StatusCode::kInvalidArgument);
  request = call("te", "trailers");
  request.method = "GET";
  EXPECT_EQ(check_call(request).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace lockstep
