// SPDX-License-Identifier: Apache-2.0
// gRPC's health service, called with the bytes of HTTP/2 frames.
#include "coordinator/http/grpc/health_service.h"

#include <gtest/gtest.h>

#include "coordinator/http/grpc/wire.h"
#include "proto/health.pb.h"
#include "tests/coordinator/api/api_server.h"
#include "tests/support/network/http2_client.h"

namespace lockstep {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;
using testing::Http2Client;
using Statuses = std::vector<HealthCheckResponse::ServingStatus>;

class HealthServiceTest : public ::testing::Test {
 protected:
  int32_t call(const std::string& method, const std::string& service) {
    HealthCheckRequest request;
    request.set_service(service);
    std::string bytes;
    append_message(request, &bytes);
    return client_.post(std::string(HealthService::kPrefix) + method, bytes, /*is_last=*/true,
                        {{"content-type", "application/grpc"}, {"te", "trailers"}});
  }
  // The statuses that the call has reported so far.
  Statuses statuses(int32_t stream) {
    Statuses found;
    std::string_view bytes = client_.answer(stream).body;
    while (true) {
      const auto message = take_message(&bytes, 100);
      EXPECT_TRUE(message.ok()) << message.status();
      if (!message.ok() || !message->has_value()) return found;
      HealthCheckResponse response;
      EXPECT_TRUE(parse(**message, &response).ok());
      found.push_back(response.status());
    }
  }
  void expect_last(int32_t stream, HealthCheckResponse::ServingStatus status) {
    EXPECT_TRUE(client_.read_until([&] {
      const Statuses found = statuses(stream);
      return !found.empty() && found.back() == status;
    }));
  }

  ApiServer server_;
  Http2Client client_{server_.address()};
};

TEST_F(HealthServiceTest, CheckReportsTheStatusOfKnownServices) {
  for (const std::string service : {"", "lockstep.v1.Generation"}) {
    const int32_t stream = call("Check", service);
    EXPECT_EQ(client_.wait(stream).trailers.at("grpc-status"), "0");
    EXPECT_EQ(statuses(stream), Statuses{HealthCheckResponse::SERVING});
  }
}

TEST_F(HealthServiceTest, CheckOfAnUnknownServiceIsNotFound) {
  for (const std::string service : {"lockstep.v1", "lockstep.v1.Generation2", "no.such"}) {
    EXPECT_EQ(client_.wait(call("Check", service)).headers.at("grpc-status"), "5");
  }
  EXPECT_EQ(client_.wait(call("List", "")).headers.at("grpc-status"), "12");
  EXPECT_EQ(client_.wait(call("Check", "\xff")).headers.at("grpc-status"), "3");
}

TEST_F(HealthServiceTest, WatchReportsEachChange) {
  const int32_t first = call("Watch", "");
  const int32_t second = call("Watch", "lockstep.v1.Generation");
  const int32_t cancelled = call("Watch", "");
  for (const int32_t watch : {first, second, cancelled}) {
    expect_last(watch, HealthCheckResponse::SERVING);
  }
  client_.reset(cancelled);

  server_.cluster().allow_forming(false);
  server_.cluster().set_hook([](const auto&) { return absl::UnavailableError("rank 0 was lost"); });
  grpc::ClientContext context;
  v1::GenerateRequest request;
  request.set_prompt("Once");
  request.set_max_tokens(4);
  const auto reader = server_.stub().Generate(&context, request);  // Its step fails.
  for (const int32_t watch : {first, second}) {
    expect_last(watch, HealthCheckResponse::NOT_SERVING);
  }
  const int32_t check = call("Check", "");
  EXPECT_TRUE(client_.wait(check).is_whole);
  EXPECT_EQ(statuses(check), Statuses{HealthCheckResponse::NOT_SERVING});

  server_.cluster().set_hook(nullptr);
  server_.cluster().allow_forming(true);
  for (const int32_t watch : {first, second}) {
    expect_last(watch, HealthCheckResponse::SERVING);
    EXPECT_FALSE(client_.answer(watch).is_whole);
  }
  for (v1::GenerateResponse response; reader->Read(&response);) {
  }
  EXPECT_TRUE(reader->Finish().ok());
}

TEST_F(HealthServiceTest, WatchOfAnUnknownServiceReportsThatAndStaysOpen) {
  const int32_t watch = call("Watch", "no.such");
  expect_last(watch, HealthCheckResponse::SERVICE_UNKNOWN);
  EXPECT_TRUE(client_.wait(call("Check", "")).is_whole);
  EXPECT_FALSE(client_.answer(watch).is_whole);
  EXPECT_EQ(statuses(watch).size(), 1);
}

TEST_F(HealthServiceTest, TheEndOfTheServerEndsWatches) {
  const int32_t watch = call("Watch", "");
  expect_last(watch, HealthCheckResponse::SERVING);
  server_.close();
  EXPECT_FALSE(client_.wait(watch).is_whole);
}

}  // namespace
}  // namespace lockstep
