// SPDX-License-Identifier: Apache-2.0
// The reflection service describes the public services, and nothing else.
#include "coordinator/api/grpc/reflection_service.h"

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.pb.h>
#include <gtest/gtest.h>

#include "coordinator/http/grpc/wire.h"
#include "proto/cluster.pb.h"
#include "proto/generate.pb.h"
#include "proto/reflection.pb.h"
#include "tests/coordinator/api/api_server.h"
#include "tests/support/network/http2_client.h"

namespace lockstep {
namespace {

using grpc::reflection::v1alpha::ServerReflectionRequest;
using grpc::reflection::v1alpha::ServerReflectionResponse;
using ::testing::Contains;
using testing::Http2Client;

constexpr int kNotFound = 5;
constexpr int kUnimplemented = 12;

ServerReflectionRequest by_name(const std::string& name) {
  ServerReflectionRequest request;
  request.set_file_by_filename(name);
  return request;
}

ServerReflectionRequest by_symbol(const std::string& symbol) {
  ServerReflectionRequest request;
  request.set_file_containing_symbol(symbol);
  return request;
}

std::vector<std::string> files_in(const ServerReflectionResponse& response) {
  std::vector<std::string> names;
  for (const std::string& bytes : response.file_descriptor_response().file_descriptor_proto()) {
    google::protobuf::FileDescriptorProto file;
    EXPECT_TRUE(file.ParseFromString(bytes));
    names.push_back(file.name());
  }
  return names;
}

std::string file_of_generation() { return v1::GenerateRequest::descriptor()->file()->name(); }

TEST(ReflectionServiceTest, FilesAreFoundByNameAndBySymbol) {
  const ReflectionService service;
  const std::string file = file_of_generation();
  for (const ServerReflectionRequest& request :
       {by_name(file), by_symbol("lockstep.v1.Generation"),
        by_symbol("lockstep.v1.Generation.Generate"), by_symbol("lockstep.v1.GenerateRequest"),
        by_symbol("lockstep.v1.GenerateRequest.prompt")}) {
    const ServerReflectionResponse response = service.look_up(request);
    EXPECT_THAT(files_in(response), Contains(file)) << request.ShortDebugString();
    EXPECT_EQ(response.original_request().ShortDebugString(), request.ShortDebugString());
  }
  EXPECT_EQ(files_in(service.look_up(by_symbol("grpc.health.v1.Health"))).size(), 1);
}

// A tool can build all messages from one answer.
TEST(ReflectionServiceTest, AFileComesWithTheFilesThatItImports) {
  const ReflectionService service;
  const ServerReflectionResponse response = service.look_up(by_name(file_of_generation()));
  google::protobuf::DescriptorPool pool;
  const auto& files = response.file_descriptor_response().file_descriptor_proto();
  for (int i = files.size() - 1; i >= 0; --i) {
    google::protobuf::FileDescriptorProto file;
    ASSERT_TRUE(file.ParseFromString(files[i]));
    EXPECT_NE(pool.BuildFile(file), nullptr) << file.name();
  }
  EXPECT_NE(pool.FindServiceByName("lockstep.v1.Generation"), nullptr);
}

TEST(ReflectionServiceTest, OnlyThePublicServicesAreListed) {
  const ReflectionService service;
  ServerReflectionRequest request;
  request.set_list_services("");
  request.set_host("a host");
  const ServerReflectionResponse response = service.look_up(request);
  std::vector<std::string> names;
  for (const auto& one : response.list_services_response().service()) names.push_back(one.name());
  EXPECT_THAT(names,
              ::testing::UnorderedElementsAre("lockstep.v1.Generation", "grpc.health.v1.Health",
                                              "grpc.reflection.v1alpha.ServerReflection"));
  EXPECT_EQ(response.valid_host(), "a host");
}

// The cluster's messages are in this process, but not public.
TEST(ReflectionServiceTest, UnknownNamesAndTheClustersMessagesAreNotFound) {
  const ReflectionService service;
  const auto* hidden = cluster::Step::descriptor();
  for (const ServerReflectionRequest& request :
       {by_name(""), by_name("no/such.proto"), by_name(hidden->file()->name()), by_symbol(""),
        by_symbol("no.such.Message"), by_symbol(hidden->full_name()),
        by_symbol("lockstep.cluster.Cluster"), by_symbol("google.protobuf.FileDescriptorProto"),
        by_symbol("lockstep.v1.Generation.NoSuch")}) {
    const ServerReflectionResponse response = service.look_up(request);
    EXPECT_EQ(response.error_response().error_code(), kNotFound) << request.ShortDebugString();
    EXPECT_EQ(response.error_response().error_message(), "this server has no such file or symbol");
  }
}

TEST(ReflectionServiceTest, ExtensionsAreUnimplemented) {
  const ReflectionService service;
  ServerReflectionRequest one;
  one.mutable_file_containing_extension()->set_containing_type("lockstep.v1.GenerateRequest");
  ServerReflectionRequest all;
  all.set_all_extension_numbers_of_type("lockstep.v1.GenerateRequest");
  for (const ServerReflectionRequest& request : {one, all, ServerReflectionRequest()}) {
    EXPECT_EQ(service.look_up(request).error_response().error_code(), kUnimplemented);
  }
}

TEST(ReflectionServiceTest, ACallAnswersEachOfItsRequestsWhileItIsOpen) {
  const ApiServer server;
  Http2Client client(server.address());
  const testing::http2::Headers head = {{"content-type", "application/grpc"}, {"te", "trailers"}};
  const std::string path(ReflectionService::kMethod);
  const int32_t stream = client.post(path, "", /*is_last=*/false, head);
  size_t bytes = 0;
  for (int i = 0; i < 20; ++i) {
    std::string request;
    append_message(by_symbol("lockstep.v1.Generation"), &request);
    for (const char byte : request) client.send_body(stream, {&byte, 1}, /*is_last=*/false);
    EXPECT_TRUE(client.read_until([&] {
      std::string_view left = std::string_view(client.answer(stream).body).substr(bytes);
      const auto message = take_message(&left, 1 << 20);
      if (!message.ok() || !message->has_value()) return false;
      ServerReflectionResponse response;
      EXPECT_TRUE(
          response.ParseFromArray((*message)->data(), static_cast<int>((*message)->size())));
      EXPECT_THAT(files_in(response), Contains(file_of_generation()));
      bytes = client.answer(stream).body.size();
      EXPECT_EQ(left, "");
      return true;
    }));
  }
  client.send_body(stream, "", /*is_last=*/true);
  EXPECT_EQ(client.wait(stream).trailers.at("grpc-status"), "0");
  const int32_t wrong = client.post(path, "", /*is_last=*/false, head);
  client.send_body(wrong, std::string("\0\0\0\0\x01\xff", 6), /*is_last=*/false);
  EXPECT_EQ(client.wait(wrong).trailers.at("grpc-status"), "3");
}

// The answers wait while the client's window is closed.
TEST(ReflectionServiceTest, AnswersThatAreNotReadEndTheCall) {
  const ApiServer server;
  Http2Client client(server.address(), /*window=*/0);
  const std::string path(ReflectionService::kMethod);
  const int32_t stream = client.post(path, "", /*is_last=*/false,
                                     {{"content-type", "application/grpc"}, {"te", "trailers"}});
  std::string requests;
  for (int i = 0; i < 1000; ++i) append_message(by_symbol("lockstep.v1.Generation"), &requests);
  client.send_body(stream, requests, /*is_last=*/false);
  EXPECT_TRUE(client.read_until([&] { return client.answer(stream).status == 200; }));
  client.open_windows();
  EXPECT_EQ(client.wait(stream).trailers.at("grpc-status"), "8");
  EXPECT_LT(client.answer(stream).body.size(), 2 << 20);
}

}  // namespace
}  // namespace lockstep
