// SPDX-License-Identifier: Apache-2.0
// A server out of file descriptors refuses connections, and answers again when some are free.
#include "base/system/descriptors.h"

#include <csignal>

#include "tests/support/network/socket.h"
#include "tests/support/processes/server.h"

namespace lockstep::testing {
namespace {

const ProcessOptions kFewDescriptors{.wrapper = with_descriptors(100)};

// Calls GetModel over a new connection, and waits until the server accepts it.
grpc::Status get_model_anew(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  const auto channel =
      grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
  grpc::ClientContext context;
  context.set_wait_for_ready(true);
  context.set_deadline(std::chrono::system_clock::now() + kPatience);
  v1::GetModelResponse response;
  return v1::Generation::NewStub(channel)->GetModel(&context, {}, &response);
}

// Opens connections; each is accepted and gets the server's settings, or is closed.
std::vector<Socket> flood_of(int count, const std::string& address) {
  std::vector<Socket> flood;
  flood.reserve(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) flood.emplace_back(address);
  for (const Socket& one : flood) one.receive();
  return flood;
}

TEST(DescriptorsTest, AFloodOfConnectionsLeavesTheServerListening) {
  raise_descriptor_limit();
  Server server({"--workers", "2"}, kFewDescriptors);
  { const std::vector<Socket> flood = flood_of(300, server.address()); }
  const grpc::Status answer = get_model_anew(server.address());
  EXPECT_TRUE(answer.ok()) << answer.error_message();
  EXPECT_TRUE(server.generate(story(5, 1)).status.ok());
}

TEST(DescriptorsTest, AWorkerLostDuringTheFloodComesBack) {
  raise_descriptor_limit();
  Server server({"--workers", "2"}, kFewDescriptors);
  EXPECT_TRUE(server.model().ready());  // This connection exists before the flood.
  const std::vector<Socket> flood = flood_of(300, server.address());
  const pid_t worker = server.workers().at(0);
  kill(worker, SIGKILL);
  while (is_alive(worker)) std::this_thread::yield();
  // Calls are refused as UNAVAILABLE until the group is complete again.
  EXPECT_TRUE(server.eventually([&](const auto& model) {
    return model.ready() && server.generate(story(5, 1)).status.ok();
  }));
}

}  // namespace
}  // namespace lockstep::testing
