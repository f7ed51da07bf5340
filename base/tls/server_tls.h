// SPDX-License-Identifier: Apache-2.0
// A server's certificate for TLS 1.2 and above, read again when its files change.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "base/tls/reloading_tls.h"

struct ssl_st;

namespace lockstep {

// The protocol that ALPN negotiates.
enum class TlsProtocol : uint8_t { kHttp11, kHttp2 };

// Thread-safe.
class TlsContext {
 public:
  // An error is one line about a file that cannot be used. A background thread loads changes, see
  // ReloadingTls; `address`, which is served, appears in its log lines.
  static absl::StatusOr<std::unique_ptr<TlsContext>> load(const TlsFiles& files,
                                                          const std::string& address,
                                                          TlsProtocol protocol);

  // The server's side of a connection over the socket, with the current certificate. The connection
  // stays valid when another certificate is loaded. Null if OpenSSL has no memory.
  std::shared_ptr<ssl_st> open(int descriptor);

 private:
  explicit TlsContext(std::unique_ptr<ReloadingTls> files) : files_(std::move(files)) {}

  const std::unique_ptr<ReloadingTls> files_;
};

}  // namespace lockstep
