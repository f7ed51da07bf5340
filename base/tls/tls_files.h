// SPDX-License-Identifier: Apache-2.0
// Where a certificate lies, for whoever serves or dials with TLS.
#pragma once

#include <string>

namespace lockstep {

// PEM files. Wanted are `cert`, a chain that begins with one's own, and `key`.
struct TlsFiles {
  std::string cert;
  std::string key;
  std::string ca;  // Where given, peers have to show a certificate that it signed.

  bool given() const { return !cert.empty(); }
};

// Their content at one moment.
struct TlsBytes {
  std::string cert;
  std::string key;
  std::string ca;

  bool operator==(const TlsBytes&) const = default;
};

}  // namespace lockstep
