// SPDX-License-Identifier: Apache-2.0
// Requests to the public gRPC port that are no valid calls, or do not have exactly one message.
#include <gtest/gtest.h>

#include "tests/coordinator/api/api_server.h"
#include "tests/support/network/http2_client.h"

namespace lockstep {
namespace {

using testing::Http2Answer;
using testing::Http2Client;

const std::string kGetModel = "/lockstep.v1.Generation/GetModel";

// A message with gRPC's prefix. `flag`: 1 if it is compressed.
std::string framed(const std::string& bytes, char flag = 0) {
  return flag + testing::http2::big_endian(static_cast<uint32_t>(bytes.size()), 4) + bytes;
}

TEST(CallsTest, TheServerAnswersCallsThatAreWrong) {
  const ApiServer server;
  Http2Client client(server.address());
  const testing::http2::Headers head = {{"content-type", "application/grpc"}, {"te", "trailers"}};
  const auto status_of = [&](int32_t stream) {
    const Http2Answer answer = client.wait(stream);
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.headers.at("content-type"), "application/grpc");
    EXPECT_EQ(answer.body, "");
    return answer.headers.at("grpc-status");
  };
  EXPECT_EQ(status_of(client.get(kGetModel, head)), "3");
  EXPECT_EQ(status_of(client.post(kGetModel, framed(""), true, {{"content-type", "text/plain"}})),
            "3");
  EXPECT_EQ(status_of(client.post(kGetModel, framed(""))), "3");
  EXPECT_EQ(status_of(client.post("/no/such", framed(""), true, head)), "12");
  EXPECT_EQ(status_of(client.post(kGetModel, framed("", 1), true, head)), "12");
  for (const std::string method : {"Generate", "Tokenize", "GetModel", "Resume", "Cancel"}) {
    for (const std::string& body : {std::string(), framed("").substr(1), framed("") + framed("")}) {
      const std::string path = "/lockstep.v1.Generation/" + method;
      EXPECT_EQ(status_of(client.post(path, body, true, head)), "13") << method;
    }
  }
  const Http2Answer answer = client.wait(client.post(kGetModel, framed(""), true, head));
  EXPECT_EQ(answer.trailers.at("grpc-status"), "0");
  EXPECT_EQ(answer.body[0], '\0');
}

}  // namespace
}  // namespace lockstep
