// SPDX-License-Identifier: Apache-2.0
// The port for the probes of a worker, with probes and with strangers.
#include "coordinator/http/grpc/health_port.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "base/status.h"
#include "tests/support/network/health_client.h"
#include "tests/support/network/http2.h"
#include "tests/support/network/socket.h"

namespace lockstep {
namespace {

namespace http2 = testing::http2;
using ::testing::HasSubstr;
using testing::health_of;
using testing::HealthCall;
using testing::HealthWatch;
using testing::Socket;

constexpr char kCheck[] = "/grpc.health.v1.Health/Check";

class HealthPortTest : public ::testing::Test {
 protected:
  HealthPortTest() {
    auto port = HealthPort::start("127.0.0.1:0");
    EXPECT_EQ(message_of(port.status()), "");
    port_ = *std::move(port);
  }
  std::string answer(const std::string& service) const {
    return health_of(port_->address(), service);
  }

  std::unique_ptr<HealthPort> port_;
};

TEST_F(HealthPortTest, LiveIsServingAtOnceAndReadyWhenItIsSet) {
  EXPECT_EQ(answer("live"), "SERVING");
  for (const bool ready : {false, true, false}) {
    port_->set_ready(ready);
    EXPECT_EQ(answer("live"), "SERVING");
    EXPECT_EQ(answer("ready"), ready ? "SERVING" : "NOT_SERVING");
    EXPECT_EQ(answer(""), ready ? "SERVING" : "NOT_SERVING");
  }
}

TEST_F(HealthPortTest, NoServiceIsReadyBeforeReadyIsSet) {
  EXPECT_EQ(answer("ready"), "NOT_SERVING");
  EXPECT_EQ(answer(""), "NOT_SERVING");
}

TEST_F(HealthPortTest, AnUnknownServiceIsNotFound) {
  for (const char* name : {"lockstep.v1.Generation", "Live", "ready "}) {
    EXPECT_EQ(answer(name), "error 5") << name;
  }
  HealthWatch watch(port_->address(), "no-such");
  EXPECT_EQ(watch.next_answer(), "SERVICE_UNKNOWN");
}

TEST_F(HealthPortTest, AWatchSeesEachChange) {
  HealthWatch watch(port_->address(), "ready");
  EXPECT_EQ(watch.next_answer(), "NOT_SERVING");
  port_->set_ready(true);
  EXPECT_EQ(watch.next_answer(), "SERVING");
  port_->set_ready(false);
  EXPECT_EQ(watch.next_answer(), "NOT_SERVING");
  port_.reset();
  EXPECT_THAT(watch.next_answer(), HasSubstr("error"));
}

TEST_F(HealthPortTest, NothingElseIsServed) {
  for (const char* method : {"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
                             "/lockstep.cluster.Cluster/Join", "/grpc.health.v1.Health/List"}) {
    HealthCall call(port_->address(), method, "");
    EXPECT_EQ(call.next_answer(), "error 12") << method;
  }
}

TEST_F(HealthPortTest, ATakenAddressIsAnErrorOfOneLine) {
  const auto second = HealthPort::start(port_->address());
  EXPECT_EQ(second.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(message_of(second.status()), HasSubstr("could not listen on " + port_->address()));
}

// Strangers open far more connections than the port allows, each with a call that does not end.
TEST_F(HealthPortTest, StrangersHoldABoundedNumberOfConnectionsAndLockNoProbeOut) {
  const int64_t count = 3 * HealthPort::kMaxConnections;
  std::vector<Socket> strangers;
  for (int64_t i = 0; i < count; ++i) {
    strangers.emplace_back(port_->address());
    strangers.back().send(http2::preface() + http2::frame(http2::kHeaders, http2::kEndHeaders, 1,
                                                          http2::hpack(http2::call_headers(
                                                              "/grpc.health.v1.Health/Watch"))));
  }
  EXPECT_EQ(answer("live"), "SERVING");
  for (int64_t i = 0; i < count - HealthPort::kMaxConnections; ++i) {
    while (!strangers[i].receive().empty()) {  // Until it is closed.
    }
  }
  EXPECT_EQ(answer("live"), "SERVING");
}

TEST_F(HealthPortTest, ALongNameIsRefused) {
  EXPECT_EQ(answer(std::string(100, 'x')), "error 5");  // NOT_FOUND
  HealthCall call(port_->address(), kCheck, "", std::string(10 << 10, 'x'));
  EXPECT_EQ(call.next_answer(), "error 8");  // RESOURCE_EXHAUSTED
}

TEST_F(HealthPortTest, AMessageOf64MiBEndsItsCallAtItsFirstBytes) {
  HealthCall call(port_->address(), kCheck, "", std::string(64 << 20, 'x'));
  EXPECT_EQ(call.next_answer(), "error 8");  // RESOURCE_EXHAUSTED
  EXPECT_EQ(answer("live"), "SERVING");
}

TEST_F(HealthPortTest, ManyWatchesSeeEachChange) {
  std::vector<std::unique_ptr<HealthWatch>> watches;
  for (int64_t i = 0; i < HealthPort::kMaxConnections; ++i) {
    watches.push_back(std::make_unique<HealthWatch>(port_->address(), ""));
    EXPECT_EQ(watches.back()->next_answer(), "NOT_SERVING");
  }
  for (const bool ready : {true, false, true}) {
    port_->set_ready(ready);
    for (const auto& watch : watches) {
      EXPECT_EQ(watch->next_answer(), ready ? "SERVING" : "NOT_SERVING");
    }
  }
}

}  // namespace
}  // namespace lockstep
