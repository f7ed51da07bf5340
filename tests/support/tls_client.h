// SPDX-License-Identifier: Apache-2.0
// A client that speaks TLS over a socket.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "tests/support/certificates.h"
#include "tests/support/socket.h"

struct ssl_st;

namespace lockstep::testing {

struct TlsClientOptions {
  std::string ca;                // Path: of the authority that has to have signed the server's.
  Authority::Identity identity;  // Of its own; paths may be empty.
  int version = 0;               // TLS1_2_VERSION and the like; 0: the best that both know.
  std::string protocol;          // ALPN; "": none is offered.
};

// The first bytes that the server sends to a client whose ClientHello comes together with the end
// of its side.
std::string answer_to_abandoned_hello(const std::string& address);

// One thread.
class TlsClient {
 public:
  TlsClient(const std::string& address, const TlsClientOptions& options);

  // Whether the handshake succeeded. With TLS 1.3 a server that refuses the client's certificate
  // says so later: request() fails.
  bool connected() const { return connected_; }
  // The answer's bytes up to the end of a body with a length; "": the connection failed.
  std::string request(std::string_view bytes);
  // Sends `count` KeyUpdate messages (TLS 1.3), as long as the connection holds.
  void update_keys(int count);
  // What the server's certificate says: the name that it was made for.
  std::string server_name() const;
  std::string protocol() const;  // Chosen by ALPN.

 private:
  Socket socket_;
  std::shared_ptr<ssl_st> tls_;
  bool connected_ = false;
};

}  // namespace lockstep::testing
