// SPDX-License-Identifier: Apache-2.0
// A client that uses TLS over a socket.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "tests/support/network/certificates.h"
#include "tests/support/network/socket.h"

struct ssl_st;

namespace lockstep::testing {

struct TlsClientOptions {
  std::string ca;                // The path of the certificate of the server's authority.
  Authority::Identity identity;  // The client's certificate and key; the paths may be empty.
  int version = 0;               // TLS1_2_VERSION and the like; 0: the newest that both support.
  std::string protocol;          // ALPN; "": none is offered.
};

// A test server's TLS files: its certificate comes from an authority of its own.
struct ServerTls {
  // `mutual`: clients need a certificate of the authority.
  TlsFiles files(bool mutual = false) const {
    return {identity.cert, identity.key, mutual ? authority.path() : std::string()};
  }
  TlsClientOptions client(const std::string& protocol = "") const {
    return {.ca = authority.path(), .protocol = protocol};
  }

  Authority authority;
  Authority::Identity identity = authority.sign("server");
};

// Sends a ClientHello and closes the sending side at once; returns the first bytes of the server's
// answer.
std::string answer_to_abandoned_hello(const std::string& address);

// Only one thread may use it.
class TlsClient {
 public:
  TlsClient(const std::string& address, const TlsClientOptions& options);

  // Whether the handshake succeeded. With TLS 1.3 a server that refuses the client's certificate
  // reports that later: request() fails.
  bool connected() const { return connected_; }
  // Sends the bytes and returns the answer up to the end of its body, which must have a
  // Content-Length; "": the connection failed.
  std::string request(std::string_view bytes);
  // Sends `count` KeyUpdate messages (TLS 1.3), while the connection lasts.
  void update_keys(int count);
  // The name in the server's certificate.
  std::string server_name() const;
  std::string protocol() const;  // Chosen by ALPN.

 private:
  Socket socket_;
  std::shared_ptr<ssl_st> tls_;
  bool connected_ = false;
};

}  // namespace lockstep::testing
