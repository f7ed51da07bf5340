// SPDX-License-Identifier: Apache-2.0
// HTTP over TLS: the clients that are served, the certificate, and its replacement by a new one.
#include <openssl/ssl.h>

#include "base/status.h"
#include "tests/coordinator/http/scripted_server.h"
#include "tests/support/network/tls_client.h"

namespace lockstep::http {
namespace {

using testing::Authority;
using testing::TlsClient;
using testing::TlsClientOptions;

const std::string kQuick = http_request("GET", "/quick");

bool is_quick(const std::string& answer) { return answer.ends_with("\r\n\r\nquick"); }

struct TlsSetup : testing::ServerTls {
  explicit TlsSetup(bool mutual = false, const Limits& limits = {})
      : server(limits, 5000, files(mutual)) {}

  ScriptedServer server;
};

TEST(HttpTlsTest, RequestsAreServedByTls12And13AndNothingOlder) {
  TlsSetup setup;
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    TlsClientOptions options = setup.client();
    options.version = version;
    TlsClient client(setup.server.address(), options);
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(is_quick(client.request(kQuick)));
    const std::string body(300'000, 'b');  // Many records in each direction.
    EXPECT_TRUE(client.request(http_request("POST", "/echo", "", body)).ends_with(body));
  }
  TlsClientOptions old = setup.client();
  old.version = TLS1_1_VERSION;
  EXPECT_FALSE(TlsClient(setup.server.address(), old).connected());
}

TEST(HttpTlsTest, AlpnIsHttp11) {
  TlsSetup setup;
  TlsClientOptions options = setup.client("http/1.1");
  EXPECT_EQ(TlsClient(setup.server.address(), options).protocol(), "http/1.1");
  options.protocol = "h2";
  EXPECT_FALSE(TlsClient(setup.server.address(), options).connected());
}

TEST(HttpTlsTest, PlainTextIsNotAnswered) {
  TlsSetup setup;
  HttpClient client(setup.server.address());
  EXPECT_EQ(client.get("/quick").status, 0);
  EXPECT_EQ(setup.server.counts().requests, 0);
}

TEST(HttpTlsTest, AHandshakeThatNeverComesIsCutOff) {
  TlsSetup setup(false, {.header = std::chrono::milliseconds(50)});
  EXPECT_TRUE(HttpClient(setup.server.address()).ends());
  HttpClient half(setup.server.address());
  half.send(std::string("\x16\x03\x01\x02\x00\x01", 6));
  EXPECT_TRUE(half.ends());
}

TEST(HttpTlsTest, AClientThatIsGoneGetsNoHandshake) {
  TlsSetup setup;
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(testing::answer_to_abandoned_hello(setup.server.address()), "");
  }
}

TEST(HttpTlsTest, KeysMayBeUpdatedALimitedNumberOfTimes) {
  TlsSetup setup;
  TlsClient client(setup.server.address(), setup.client());
  for (int i = 0; i < 10; ++i) {
    client.update_keys(20);
    EXPECT_TRUE(is_quick(client.request(kQuick)));
  }
  client.update_keys(1000);
  EXPECT_EQ(client.request(kQuick), "");
  EXPECT_TRUE(is_quick(TlsClient(setup.server.address(), setup.client()).request(kQuick)));
}

TEST(HttpTlsTest, OnlyClientsWithACertificateOfTheAuthorityAreServed) {
  TlsSetup setup(/*mutual=*/true);
  const Authority stranger;
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    TlsClientOptions options = setup.client();
    options.version = version;
    EXPECT_EQ(TlsClient(setup.server.address(), options).request(kQuick), "");
    options.identity = stranger.sign("stranger");
    EXPECT_EQ(TlsClient(setup.server.address(), options).request(kQuick), "");
    options.identity = setup.authority.sign("late", -1);
    EXPECT_EQ(TlsClient(setup.server.address(), options).request(kQuick), "");
    options.identity = setup.authority.sign("friend");
    EXPECT_TRUE(is_quick(TlsClient(setup.server.address(), options).request(kQuick)));
  }
  EXPECT_EQ(setup.server.counts().requests, 2);
}

TEST(HttpTlsTest, ANewCertificateIsUsedAndNoConnectionIsLost) {
  TlsSetup setup;
  TlsClient old(setup.server.address(), setup.client());
  EXPECT_TRUE(is_quick(old.request(kQuick)));
  EXPECT_EQ(old.server_name(), "server");
  testing::replace(setup.identity, setup.authority.sign("renewed"));
  EXPECT_TRUE(becomes_true([&] {
    TlsClient fresh(setup.server.address(), setup.client());
    EXPECT_TRUE(is_quick(fresh.request(kQuick)));  // Before and after the change.
    EXPECT_TRUE(is_quick(old.request(kQuick)));
    return fresh.server_name() == "renewed";
  }));
}

TEST(HttpTlsTest, ACertificateWithoutItsKeyLeavesTheLastGoodOneInUse) {
  TlsSetup setup;
  const Authority::Identity other = setup.authority.sign("other");
  testing::replace({setup.identity.cert, other.key}, other);  // The old key stays.
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(becomes_true([&] {  // The loop lasts longer than two checks of the files.
    TlsClient client(setup.server.address(), setup.client());
    EXPECT_TRUE(is_quick(client.request(kQuick)));
    EXPECT_EQ(client.server_name(), "server");
    return std::chrono::steady_clock::now() - begin > std::chrono::milliseconds(2500);
  }));
}

TEST(HttpTlsTest, FilesThatCannotBeUsedAreErrorsOfOneLine) {
  const Authority authority;
  const auto one = authority.sign("one");
  const auto two = authority.sign("two");
  const auto error = [](const TlsFiles& files) {
    const auto server = Server::start({.address = "127.0.0.1:0", .tls = files}, [](const auto&) {});
    EXPECT_EQ(server.status().code(), absl::StatusCode::kInvalidArgument);
    return message_of(server.status());
  };
  EXPECT_NE(error({one.cert, two.key}).find(two.key), std::string::npos);
  EXPECT_NE(error({"/none.pem", one.key}).find("/none.pem"), std::string::npos);
  EXPECT_NE(error({one.cert, one.key, one.key}).find("authority " + one.key), std::string::npos);
  EXPECT_EQ(error({one.cert, one.cert}).find('\n'), std::string::npos);
}

}  // namespace
}  // namespace lockstep::http
