// SPDX-License-Identifier: Apache-2.0
// `lockstep serve` with TLS: one certificate for both ports.
#include <grpcpp/security/credentials.h>

#include <chrono>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "tests/support/files/spoiled_files.h"
#include "tests/support/network/http_client.h"
#include "tests/support/network/socket.h"
#include "tests/support/network/tls_client.h"
#include "tests/support/processes/by_hand.h"
#include "tests/support/processes/server.h"

namespace lockstep::testing {
namespace {

// Opens a separate connection.
std::unique_ptr<v1::Generation::Stub> connect(const std::string& address, const std::string& ca,
                                              const Authority::Identity& identity = {}) {
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = content_of(ca);
  if (!identity.cert.empty()) {
    options.pem_cert_chain = content_of(identity.cert);
    options.pem_private_key = content_of(identity.key);
  }
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetMaxReceiveMessageSize(-1);
  return v1::Generation::NewStub(
      grpc::CreateCustomChannel(address, grpc::SslCredentials(options), arguments));
}

struct TlsCall {
  grpc::Status status;
  std::string server_name;
};
TlsCall get_model(const std::string& address, const std::string& ca,
                  const Authority::Identity& identity = {}) {
  grpc::ClientContext context;
  v1::GetModelResponse response;
  TlsCall call;
  call.status = connect(address, ca, identity)->GetModel(&context, {}, &response);
  if (!call.status.ok()) return call;
  for (const auto& name : context.auth_context()->FindPropertyValues("x509_common_name")) {
    call.server_name = std::string(name.data(), name.size());
  }
  return call;
}

TEST(TlsPortsTest, BothPortsUseOneCertificateThatMayChange) {
  const Authority authority;
  const Authority::Identity identity = authority.sign("server");
  Server server({"--tls-cert", identity.cert, "--tls-key", identity.key});
  const std::string health = http_request("GET", "/health");
  TlsClient old(server.http_address(), {.ca = authority.path()});
  EXPECT_TRUE(old.request(health).starts_with("HTTP/1.1 200"));
  const TlsCall first = get_model(server.address(), authority.path());
  EXPECT_TRUE(first.status.ok()) << first.status.error_message();
  EXPECT_EQ(first.server_name, "server");

  replace(identity, authority.sign("renewed"));
  EXPECT_TRUE(becomes_true([&] {
    TlsClient http(server.http_address(), {.ca = authority.path()});
    // The server answers during the change, too.
    EXPECT_TRUE(http.request(health).starts_with("HTTP/1.1 200"));
    EXPECT_TRUE(old.request(health).starts_with("HTTP/1.1 200"));
    const TlsCall call = get_model(server.address(), authority.path());
    EXPECT_TRUE(call.status.ok()) << call.status.error_message();
    return http.server_name() == "renewed" && call.server_name == "renewed";
  }));
}

// Spoils each file in three ways. After each change the process must report once that the last good
// files are still used for `user`. `check` then runs while the file is spoiled.
template <typename Check>
void spoil_one_by_one(const std::vector<std::string>& paths, Process& process,
                      const std::string& user, const Check& check) {
  const std::string words = "; the last good certificate is still used for " + user;
  for (const std::string& path : paths) {
    for (const Spoiler& spoiler : std::span(kSpoilers).first(3)) {
      SCOPED_TRACE(path + " is " + spoiler.name);
      const size_t before = process.err().size();
      const SpoiledFile spoiled(path, spoiler);
      ASSERT_TRUE(becomes_true([&] {
        return process.err(before).find(words) != std::string::npos || !is_alive(process.pid());
      })) << process.err();
      ASSERT_TRUE(is_alive(process.pid())) << process.err();
      check();
      const std::string err = process.err(before);
      EXPECT_NE(err.find(path + ": "), std::string::npos) << err;
      EXPECT_EQ(err.find(words), err.rfind(words)) << err;
    }
  }
}

TEST(TlsPortsTest, ClientsAreServedWithTheLastGoodFilesIfAFileIsSpoiled) {
  const Authority authority;
  const Authority::Identity identity = authority.sign("server");
  const Authority::Identity client = authority.sign("friend");
  const std::string ca = authority.path() + ".changing";
  put_content(ca, content_of(authority.path()));
  Server server({"--tls-cert", identity.cert, "--tls-key", identity.key, "--tls-ca", ca});
  const auto name = [&] {
    const TlsCall call = get_model(server.address(), authority.path(), client);
    EXPECT_TRUE(call.status.ok()) << call.status.error_message();
    return call.server_name;
  };
  spoil_one_by_one({identity.cert, identity.key, ca}, server.process(), server.address(), [&] {
    EXPECT_EQ(name(), "server");
    TlsClient http(server.http_address(), {.ca = authority.path(), .identity = client});
    EXPECT_TRUE(http.request(http_request("GET", "/health")).starts_with("HTTP/1.1 200"));
  });
  replace(identity, authority.sign("renewed"));
  EXPECT_TRUE(becomes_true([&] { return name() == "renewed"; }));
  const Authority others;
  put_content(ca, content_of(others.path()));
  EXPECT_TRUE(becomes_true([&] {
    return get_model(server.address(), authority.path(), others.sign("stranger")).status.ok();
  }));
}

TEST(TlsPortsTest, OnlyClientsWithACertificateOfTheAuthorityAreServed) {
  const Authority authority;
  const Authority stranger;
  const Authority::Identity identity = authority.sign("server");
  Server server(
      {"--tls-cert", identity.cert, "--tls-key", identity.key, "--tls-ca", authority.path()});
  const auto status_of = [&](const Authority::Identity& client) {
    return get_model(server.address(), authority.path(), client).status;
  };
  EXPECT_FALSE(status_of({}).ok());
  EXPECT_FALSE(status_of(stranger.sign("stranger")).ok());
  EXPECT_FALSE(status_of(authority.sign("late", -1)).ok());
  const grpc::Status served = status_of(authority.sign("friend"));
  EXPECT_TRUE(served.ok()) << served.error_message();
  TlsClient http(server.http_address(), {.ca = authority.path()});
  EXPECT_EQ(http.request(http_request("GET", "/health")), "");
}

TEST(TlsPortsTest, TheLargestMessagesPassBothWays) {
  const Authority authority;
  const Authority::Identity identity = authority.sign("server");
  Server server({"--tls-cert", identity.cert, "--tls-key", identity.key});
  const auto stub = connect(server.address(), authority.path());
  v1::TokenizeRequest request;
  std::string* text = request.mutable_text();
  while (text->size() < 4'000'000) *text += "a ";
  v1::TokenizeResponse response;
  grpc::ClientContext context;
  const grpc::Status status = stub->Tokenize(&context, request, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_GT(response.ByteSizeLong(), 2U << 20);
}

TEST(TlsPortsTest, FailedHandshakesAreLoggedAtMostOncePerSecond) {
  const Authority authority;
  const Authority::Identity identity = authority.sign("server");
  Server server({"--tls-cert", identity.cert, "--tls-key", identity.key});
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 100; ++i) {
    const Socket stranger(server.address());
    stranger.send("no handshake of TLS at all, which its first byte shows");
    stranger.receive();  // Until the server hangs up.
  }
  const auto passed = std::chrono::steady_clock::now() - begin;
  const std::string line = ": the connection of ";
  EXPECT_TRUE(server.process().wait_for_err(line)) << server.process().err();
  const std::string err = server.process().err();
  int64_t lines = 0;
  for (size_t at = err.find(line); at != std::string::npos; at = err.find(line, at + 1)) {
    ++lines;
  }
  EXPECT_LE(lines, std::chrono::ceil<std::chrono::seconds>(passed).count() + 1) << err;
}

// ---- The port at which workers join ----

class ClusterTlsTest : public ::testing::Test {
 protected:
  static std::vector<std::string> flags(const Authority::Identity& identity,
                                        const Authority& authority) {
    return {"--cluster-cert", identity.cert,  "--cluster-key",
            identity.key,     "--cluster-ca", authority.path()};
  }

  // A coordinator that waits for one worker.
  ClusterTlsTest() {
    std::vector<std::string> more = flags(server_, authority_);
    more.insert(more.end(), {"--log-level", "info"});
    coordinator_ = start_coordinator(1, more);
    address_ = join_address(*coordinator_);
  }

  std::unique_ptr<Process> worker(const std::vector<std::string>& tls) {
    return start_worker(address_, tls);
  }

  const Authority authority_;
  const Authority::Identity server_ = authority_.sign("server");
  std::unique_ptr<Process> coordinator_;
  std::string address_;
};

TEST_F(ClusterTlsTest, OnlyWorkersOfTheAuthorityJoinAndCertificatesMayChange) {
  const Authority others;
  const auto plain = worker({});
  const auto stranger = worker(flags(others.sign("stranger"), authority_));
  const auto misled = worker(flags(authority_.sign("friend"), others));
  const auto expired = worker(flags(authority_.sign("expired", /*days=*/-1), authority_));
  for (const auto& refused : {plain.get(), stranger.get(), misled.get(), expired.get()}) {
    EXPECT_TRUE(refused->wait_for_err("no coordinator at")) << refused->err();
  }
  EXPECT_EQ(coordinator_->err().find("a worker joined"), std::string::npos);

  const Authority::Identity friendly = authority_.sign("friend");
  auto first = worker(flags(friendly, authority_));
  ASSERT_TRUE(coordinator_->wait_for_err("ready;")) << coordinator_->err();
  replace(server_, authority_.sign("renewed"));
  replace(friendly, authority_.sign("another friend"));
  first.reset();  // The next worker joins with the current files.
  const size_t before = coordinator_->err().size();
  const auto second = worker(flags(friendly, authority_));
  EXPECT_TRUE(becomes_true([&] {
    return coordinator_->err().find("ranks ready", before) != std::string::npos;
  })) << coordinator_->err();
}

TEST_F(ClusterTlsTest, WorkersAreAcceptedWithTheLastGoodFilesIfAFileIsSpoiled) {
  const TlsClientOptions friendly = {
      .ca = authority_.path(), .identity = authority_.sign("friend"), .protocol = "h2"};
  const auto name = [&] { return TlsClient(address_, friendly).server_name(); };
  spoil_one_by_one({server_.cert, server_.key}, *coordinator_, address_,
                   [&] { EXPECT_EQ(name(), "server"); });
  replace(server_, authority_.sign("renewed"));
  EXPECT_TRUE(becomes_true([&] { return name() == "renewed"; }));
  const auto first = worker(flags(friendly.identity, authority_));
  EXPECT_TRUE(coordinator_->wait_for_err("ready;")) << coordinator_->err();
}

TEST_F(ClusterTlsTest, AWorkerKeepsDiallingIfAFileIsSpoiledAndUsesANewOne) {
  const Authority others;
  const Authority::Identity changing = others.sign("stranger");
  const auto dialling = worker(flags(changing, authority_));
  ASSERT_TRUE(dialling->wait_for_err("no coordinator at")) << dialling->err();
  spoil_one_by_one({changing.cert, changing.key}, *dialling, "the connection to " + address_,
                   [] {});
  EXPECT_EQ(coordinator_->err().find("a worker joined"), std::string::npos);
  replace(changing, authority_.sign("friend"));
  EXPECT_TRUE(coordinator_->wait_for_err("ready;")) << dialling->err();
}

TEST_F(ClusterTlsTest, AWorkerWithASpoiledFileJoinsWithItsLastGoodOnes) {
  const Authority others;
  replace(server_, others.sign("stranger"));  // The coordinator is not trusted yet.
  EXPECT_TRUE(becomes_true([&] {
    return TlsClient(address_, {.ca = others.path(), .protocol = "h2"}).server_name() == "stranger";
  }));
  const Authority::Identity friendly = authority_.sign("friend");
  const auto dialling = worker(flags(friendly, authority_));
  ASSERT_TRUE(dialling->wait_for_err("no coordinator at")) << dialling->err();
  const SpoiledFile spoiled(friendly.cert, kSpoilers[0]);
  ASSERT_TRUE(dialling->wait_for_err("the last good certificate is still used")) << dialling->err();
  replace(server_, authority_.sign("renewed"));
  EXPECT_TRUE(coordinator_->wait_for_err("ready;")) << coordinator_->err();
}

TEST_F(ClusterTlsTest, AWorkerWithUnusableFirstFilesEndsWithOneLine) {
  const Authority::Identity own = authority_.sign("friend");
  for (const Spoiler& spoiler : kSpoilers) {
    const SpoiledFile spoiled(own.key, spoiler);
    const auto ended = worker(flags(own, authority_));
    EXPECT_EQ(ended->wait(), 2);
    EXPECT_NE(ended->err().find(own.key), std::string::npos) << ended->err();
  }
}

TEST_F(ClusterTlsTest, LocallyStartedWorkersJoinOverTls) {
  std::vector<std::string> line = {"--workers", "2", "--cluster", "127.0.0.1:0"};
  const std::vector<std::string> tls = flags(server_, authority_);
  line.insert(line.end(), tls.begin(), tls.end());
  Server server(line, with_join_token());
  EXPECT_TRUE(server.generate(story(5, 1)).status.ok());
}

// The tokens of a story from the public port.
std::vector<int> tokens_at(Process& coordinator) {
  const std::string words = "gRPC at ";
  const std::string err = coordinator.err();
  const size_t at = err.find(words) + words.size();
  const auto channel = grpc::CreateChannel(err.substr(at, err.find(',', at) - at),
                                           grpc::InsecureChannelCredentials());
  grpc::ClientContext context;
  const auto reader = v1::Generation::NewStub(channel)->Generate(&context, story(20, 1));
  std::vector<int> tokens;
  v1::GenerateResponse response;
  while (reader->Read(&response)) {
    tokens.insert(tokens.end(), response.token_ids().begin(), response.token_ids().end());
  }
  const grpc::Status status = reader->Finish();
  EXPECT_TRUE(status.ok()) << status.error_message();
  return tokens;
}

TEST_F(ClusterTlsTest, RanksOfTwoHostsUseTlsForDataAndCertificatesMayChange) {
  std::vector<std::string> more = flags(server_, authority_);
  more.insert(more.end(), {"--log-level", "info"});
  const auto coordinator = start_coordinator(2, more);
  const std::string address = join_address(*coordinator);
  const auto start = [&](const std::string& host, const Authority::Identity& identity,
                         const std::string& data_listen) {
    std::vector<std::string> arguments = flags(identity, authority_);
    arguments.insert(arguments.end(), {"--host-name", host, "--data-listen", data_listen});
    return start_worker(address, arguments);
  };
  const Authority::Identity changing = authority_.sign("changing");
  const auto first = start("one", changing, "127.0.0.1:0");
  auto second = start("two", authority_.sign("two"), "0.0.0.0:0");
  ASSERT_TRUE(coordinator->wait_for_err("ready;")) << coordinator->err();
  for (Process* worker : {first.get(), second.get()}) {
    EXPECT_TRUE(worker->wait_for_err("is connected to 1 ranks of other hosts")) << worker->err();
    EXPECT_NE(worker->err().find(", with TLS"), std::string::npos) << worker->err();
  }
  const std::vector<int> wanted = Server({"--workers", "1"}).generate(story(20, 1)).tokens;
  EXPECT_EQ(tokens_at(*coordinator), wanted);

  replace(changing, authority_.sign("renewed"));
  second.reset();
  second = start("two", authority_.sign("third"), "127.0.0.1:0");
  EXPECT_TRUE(second->wait_for_err("is connected to 1 ranks of other hosts")) << first->err();
  EXPECT_EQ(tokens_at(*coordinator), wanted);
}

TEST_F(ClusterTlsTest, ADataPortOffLoopbackNeedsCertificatesOrTheInsecureFlag) {
  const ProcessResult plain =
      run_lockstep({"worker", "--coordinator", address_, "--data-listen", "0.0.0.0:0"},
                   {.environment = {{"LOCKSTEP_JOIN_TOKEN", "sesame, open please"}}});
  EXPECT_EQ(plain.code, 2);
  EXPECT_NE(plain.err.find("in plain text; give --cluster-cert"), std::string::npos) << plain.err;
}

TEST_F(ClusterTlsTest, AMissingFileOfAPairIsNamed) {
  const ProcessResult half =
      run_lockstep({"worker", "--coordinator", address_, "--cluster-cert", server_.cert});
  EXPECT_EQ(half.code, 2);
  EXPECT_NE(half.err.find("--cluster-key: must be a file, found none"), std::string::npos)
      << half.err;
  const ProcessResult missing =
      run_lockstep({"worker", "--coordinator", address_, "--cluster-cert", server_.cert,
                    "--cluster-key", "/none", "--cluster-ca", authority_.path()});
  EXPECT_EQ(missing.code, 2);
  EXPECT_NE(missing.err.find("--cluster-key: must be a readable file, found /none: No such"),
            std::string::npos)
      << missing.err;
}

}  // namespace
}  // namespace lockstep::testing
