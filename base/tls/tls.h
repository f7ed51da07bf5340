// SPDX-License-Identifier: Apache-2.0
// What all that speaks TLS needs of OpenSSL: certificates from files, and connections over sockets
// that do not block.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/tls/tls_files.h"

struct ssl_ctx_st;
struct ssl_st;

namespace lockstep {

// What the files hold; `ca` is empty where none is named. kInvalidArgument: one line for a file
// that cannot be read.
absl::StatusOr<TlsBytes> read_tls_bytes(const TlsFiles& files);

// For either side, without renegotiation and compression; with partial writes from memory that may
// move. kInvalidArgument: one line for bytes that cannot be used, or a key of another certificate;
// it names the file where they are from.
absl::StatusOr<std::shared_ptr<ssl_ctx_st>> make_tls_context(const TlsFiles& files,
                                                             const TlsBytes& bytes);

// A connection over the socket, which it does not own: neither side's yet. It stays valid without
// the context's owner. Null where OpenSSL has no memory.
std::shared_ptr<ssl_st> open_tls(ssl_ctx_st* context, int descriptor);

// The first of this thread's errors that OpenSSL has in store, which is the cause of the others;
// none are left.
std::string take_tls_error();

}  // namespace lockstep
