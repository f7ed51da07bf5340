// SPDX-License-Identifier: Apache-2.0
// gRPC's own log.
#pragma once

namespace lockstep {

// Turns gRPC's log lines, such as a failed TLS handshake, into ours, at most one per second,
// because strangers cause them. GRPC_VERBOSITY is for a person who looks for a fault: if it is
// set, all lines go to stderr as usual. Call it before threads are started.
void limit_grpc_log();

}  // namespace lockstep
