// SPDX-License-Identifier: Apache-2.0
// gRPC's own log.
#pragma once

namespace lockstep {

// Turns gRPC's log lines, such as a failed TLS handshake, into ours, at most one per second,
// because strangers cause them. If GRPC_VERBOSITY is set, a person looks for a fault, and lines go
// to stderr as usual. Call it before threads are started.
void limit_grpc_log();

}  // namespace lockstep
