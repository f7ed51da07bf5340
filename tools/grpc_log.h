// SPDX-License-Identifier: Apache-2.0
// gRPC's own log.
#pragma once

namespace lockstep {

// From now on what gRPC logs, such as a TLS handshake that failed, is one of our lines, and one per
// second at most: strangers cause them. Where GRPC_VERBOSITY is set somebody looks for a fault, and
// it goes to stderr as gRPC likes. Call it before threads are started.
void limit_grpc_log();

}  // namespace lockstep
