// SPDX-License-Identifier: Apache-2.0
// Bounds gRPC's reflection, which is none of ours: it looks a name up in time that grows with the
// square of its length, under a lock that every parsed message takes, and with a thread per call.
#pragma once

#include <grpcpp/support/server_interceptor.h>

#include <memory>

#include "coordinator/api/api_keys.h"

namespace lockstep {

// Reflection's calls need a key of these (null: none), have at most 1 KiB per request, and are 16
// at once: others end with a status that says so. Calls of other methods are not touched. The keys
// outlive the server.
std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> guard_reflection(
    const ApiKeys* keys);

}  // namespace lockstep
