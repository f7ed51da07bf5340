// SPDX-License-Identifier: Apache-2.0
// `lockstep serve` with TLS: one certificate for both ports.
#include <grpcpp/security/credentials.h>

#include <fstream>
#include <iterator>

#include "tests/support/http_client.h"
#include "tests/support/server.h"
#include "tests/support/tls_client.h"

namespace lockstep::testing {
namespace {

std::string content(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// A call over a connection of its own.
struct TlsCall {
  grpc::Status status;
  std::string server_name;
};
TlsCall get_model(const std::string& address, const std::string& ca,
                  const Authority::Identity& identity = {}) {
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = content(ca);
  if (!identity.cert.empty()) {
    options.pem_cert_chain = content(identity.cert);
    options.pem_private_key = content(identity.key);
  }
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  const auto channel = grpc::CreateCustomChannel(address, grpc::SslCredentials(options), arguments);
  grpc::ClientContext context;
  v1::GetModelResponse response;
  TlsCall call;
  call.status = v1::Generation::NewStub(channel)->GetModel(&context, {}, &response);
  if (!call.status.ok()) return call;
  for (const auto& name : context.auth_context()->FindPropertyValues("x509_common_name")) {
    call.server_name = std::string(name.data(), name.size());
  }
  return call;
}

TEST(TlsPortsTest, BothAreServedByOneCertificateWhichMayChange) {
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
    EXPECT_TRUE(http.request(health).starts_with("HTTP/1.1 200"));  // At any moment.
    EXPECT_TRUE(old.request(health).starts_with("HTTP/1.1 200"));
    const TlsCall call = get_model(server.address(), authority.path());
    EXPECT_TRUE(call.status.ok()) << call.status.error_message();
    return http.server_name() == "renewed" && call.server_name == "renewed";
  }));
}

TEST(TlsPortsTest, WithAnAuthorityOnlyItsClientsAreServed) {
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

}  // namespace
}  // namespace lockstep::testing
