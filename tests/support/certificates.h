// SPDX-License-Identifier: Apache-2.0
// Certificates for tests of TLS: made here, for 127.0.0.1 and localhost, and valid for a day.
#pragma once

#include <string>

#include "base/tls/tls_files.h"
#include "tests/support/temp_folder.h"

namespace lockstep::testing {

// An authority and what it signs, as PEM files of a folder.
class Authority {
 public:
  Authority();

  // Of the authority's own certificate.
  std::string path() const { return file("ca.pem"); }
  struct Identity {
    std::string cert;  // Paths.
    std::string key;
  };
  // A certificate for `name`; `days` below 0: one that has expired. `uses`: "serverAuth", or such;
  // empty: any.
  Identity sign(const std::string& name, int days = 1, const std::string& uses = "") const;

 private:
  std::string file(const std::string& name) const { return (folder_.path() / name).string(); }

  TempFolder folder_;
};

// The files of one who asks peers for certificates of `authority`.
inline TlsFiles tls_files(const Authority::Identity& identity, const Authority& authority) {
  return {.cert = identity.cert, .key = identity.key, .ca = authority.path()};
}

// Has the files of `to` be those of `from`, as a whole: each is written beside it and renamed.
void replace(const Authority::Identity& to, const Authority::Identity& from);

}  // namespace lockstep::testing
