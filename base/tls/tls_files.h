// SPDX-License-Identifier: Apache-2.0
// Paths of a certificate, for servers and clients of TLS.
#pragma once

#include <string>

namespace lockstep {

// PEM files. `cert`, a chain that begins with the certificate of `key`, and `key` are required.
struct TlsFiles {
  std::string cert;
  std::string key;
  std::string ca;  // If given, peers must show a certificate that it signed.

  bool given() const { return !cert.empty(); }
};

// The files' content at one moment.
struct TlsBytes {
  std::string cert;
  std::string key;
  std::string ca;

  bool operator==(const TlsBytes&) const = default;
};

}  // namespace lockstep
