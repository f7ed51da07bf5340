// SPDX-License-Identifier: Apache-2.0
// Limits gRPC's reflection service, whose code is not ours: it looks a name up in time that grows
// with the square of its length, under a lock that every parsed message takes, and uses a thread
// per call.
#pragma once

#include <grpcpp/support/server_interceptor.h>

#include <memory>

#include "coordinator/api/api_keys.h"

namespace lockstep {

// Reflection calls need one of these keys (null: none), and have at most 1 KiB per request; at most
// 16 run at once. Others end with a status that says so. Calls of other methods are not touched.
// The keys outlive the server.
std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> guard_reflection(
    const ApiKeys* keys);

}  // namespace lockstep
