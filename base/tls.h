// SPDX-License-Identifier: Apache-2.0
// What all that speaks TLS needs of OpenSSL: certificates from files, and connections over sockets
// that do not block.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/tls_files.h"

struct ssl_ctx_st;
struct ssl_st;

namespace lockstep {

// For either side, without renegotiation and compression; with partial writes from memory that may
// move. kInvalidArgument: one line for a file that cannot be read, or a key that does not fit.
absl::StatusOr<std::shared_ptr<ssl_ctx_st>> read_tls_files(const TlsFiles& files);

// Changes with each of the files, replaced or rewritten.
using TlsFilesVersion = std::array<int64_t, 12>;
TlsFilesVersion version_of(const TlsFiles& files);

// A connection over the socket, which it does not own: neither side's yet. It stays valid without
// the context's owner. Null where OpenSSL has no memory.
std::shared_ptr<ssl_st> open_tls(ssl_ctx_st* context, int descriptor);

// The first of this thread's errors that OpenSSL has in store, which is the cause of the others;
// none are left.
std::string take_tls_error();

}  // namespace lockstep
