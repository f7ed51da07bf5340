// SPDX-License-Identifier: Apache-2.0
// The clients in the README, run as shown there, if their tools are installed.
#include "base/source_dir.h"
#include "tests/support/processes/server.h"

namespace lockstep::testing {
namespace {

const std::string kSource = LOCKSTEP_SOURCE_DIR;

int run(std::vector<std::string> arguments, std::string* out, const ProcessOptions& options = {}) {
  Process process(std::move(arguments), options);
  const int code = process.wait();
  *out = process.out() + process.err();
  return code;
}

// The path of a Python that has grpcio, or "".
std::string python_with_grpc() {
  for (const std::string python : {"python3", "/usr/bin/python3"}) {
    std::string out;
    if (run({"/bin/sh", "-c", python + " -c 'import grpc, google.protobuf'"}, &out) == 0) {
      return python;
    }
  }
  return "";
}

TEST(ClientsTest, ThePythonClientStreamsTheTextOfTheSeed) {
  const std::string python = python_with_grpc();
  if (python.empty()) GTEST_SKIP() << "no Python with grpcio";
  TemporaryFolder folder;
  std::string out;
  ASSERT_EQ(run({"/bin/sh", "-c",
                 "protoc -I " + kSource + "/proto --python_out=" + folder.path() + " " + kSource +
                     "/proto/generate.proto"},
                &out),
            0)
      << out;
  Server server({"--workers", "2"});
  const ProcessOptions options{.input = "", .environment = {{"PYTHONPATH", folder.path()}}};
  EXPECT_EQ(run({"/bin/sh", "-c",
                 python + " " + kSource + "/docs/clients/generate.py --server " + server.address() +
                     " --seed 4 --max-tokens 30 'Once upon a time'"},
                &out, options),
            0)
      << out;
  v1::GenerateRequest request = story(30, 4);
  request.clear_ignore_eos();
  EXPECT_EQ(out, server.generate(request).text + "\n");
}

TEST(ClientsTest, GrpcurlFindsTheServiceByReflection) {
  std::string out;
  if (run({"/bin/sh", "-c", "command -v grpcurl"}, &out) != 0) GTEST_SKIP() << "no grpcurl";
  Server server;
  EXPECT_EQ(run({"/bin/sh", "-c",
                 "grpcurl -plaintext -d '{\"prompt\": \"Once upon a time\", \"max_tokens\": 5}' " +
                     server.address() + " lockstep.v1.Generation/Generate"},
                &out),
            0)
      << out;
  EXPECT_NE(out.find("finishReason"), std::string::npos) << out;
}

}  // namespace
}  // namespace lockstep::testing
