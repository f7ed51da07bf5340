// SPDX-License-Identifier: Apache-2.0
// OpenSSL functions that all users of TLS share: certificates from files, and connections over
// non-blocking sockets.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/tls/tls_files.h"

struct ssl_ctx_st;
struct ssl_st;

namespace lockstep {

// The files' content; `ca` is empty if none is named. kInvalidArgument: one line about a file that
// cannot be read.
absl::StatusOr<TlsBytes> read_tls_bytes(const TlsFiles& files);

// Makes a context for either side, without renegotiation and compression. A write may be partial,
// and the retry of a write may come from other memory. kInvalidArgument: one line, with the file's
// name, about unusable bytes or a key that does not belong to the certificate.
absl::StatusOr<std::shared_ptr<ssl_ctx_st>> make_tls_context(const TlsFiles& files,
                                                             const TlsBytes& bytes);

// A connection over the socket, without owning the socket. The caller sets whether this side is the
// server or the client. The connection stays valid after the context's owner is gone. Null if
// OpenSSL has no memory.
std::shared_ptr<ssl_st> open_tls(ssl_ctx_st* context, int descriptor);

// Returns the first of this thread's queued OpenSSL errors, which caused the others, and clears the
// queue.
std::string take_tls_error();

}  // namespace lockstep
