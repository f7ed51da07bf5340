// SPDX-License-Identifier: Apache-2.0
// A server's certificate for TLS 1.2 and above, read anew when its files change.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "base/tls/last_good_tls.h"

struct ssl_st;

namespace lockstep {

// The protocol that ALPN agrees on.
enum class TlsProtocol : uint8_t { kHttp11, kHttp2 };

// Thread-safe.
class TlsContext {
 public:
  // One line for a file that cannot be used. Changes are taken as LastGoodTls does, on a thread;
  // `address`, which is served, is for its lines of the log.
  static absl::StatusOr<std::unique_ptr<TlsContext>> load(const TlsFiles& files,
                                                          const std::string& address,
                                                          TlsProtocol protocol);

  // The server's side of a connection over the socket, with the certificate of this moment. It
  // stays valid whatever is loaded later. Null where OpenSSL has no memory.
  std::shared_ptr<ssl_st> open(int descriptor);

 private:
  explicit TlsContext(std::unique_ptr<LastGoodTls> files) : files_(std::move(files)) {}

  const std::unique_ptr<LastGoodTls> files_;
};

}  // namespace lockstep
