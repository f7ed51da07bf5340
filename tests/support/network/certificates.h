// SPDX-License-Identifier: Apache-2.0
// Certificates for tests of TLS: generated here, for 127.0.0.1 and localhost, and valid for a day.
#pragma once

#include <string>

#include "base/tls/tls_files.h"
#include "tests/support/files/temp_folder.h"

namespace lockstep::testing {

// An authority and the certificates that it signs, as PEM files in a folder.
class Authority {
 public:
  Authority();

  // The path of the authority's own certificate.
  std::string path() const { return file("ca.pem"); }
  struct Identity {
    std::string cert;  // The paths of both files.
    std::string key;
  };
  // A certificate for `name`. Negative `days`: it has expired. `uses`: for example "serverAuth";
  // empty: any.
  Identity sign(const std::string& name, int days = 1, const std::string& uses = "") const;

 private:
  std::string file(const std::string& name) const { return (folder_.path() / name).string(); }

  TempFolder folder_;
};

// The files of a process whose peers' certificates must be signed by `authority`.
inline TlsFiles tls_files(const Authority::Identity& identity, const Authority& authority) {
  return {.cert = identity.cert, .key = identity.key, .ca = authority.path()};
}

// Replaces the files of `to` by those of `from`: each is copied under a new name, then renamed.
void replace(const Authority::Identity& to, const Authority::Identity& from);

}  // namespace lockstep::testing
