// SPDX-License-Identifier: Apache-2.0
// Collectives between GPUs by NCCL, a library that is looked for when it is wanted: nothing is
// linked. Its functions are declared here as its version 2.18 and later have them.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "worker/collectives/collective.h"
#include "worker/kernels/device.h"

namespace lockstep {

inline constexpr const char* kNcclFile = "libnccl.so.2";

// The functions that are used. Results are NCCL's: 0 is success, 7 "in progress".
struct Nccl {
  struct Id {
    std::array<char, 128> bytes{};
  };
  struct Config;  // See nccl.cc.
  using Comm = struct Opaque*;

  int version = 0;  // 22809 is 2.28.9.
  int (*get_unique_id)(Id* id) = nullptr;
  int (*init)(Comm* comm, int ranks, Id id, int rank, Config* config) = nullptr;
  int (*async_error)(Comm comm, int* error) = nullptr;
  int (*abort)(Comm comm) = nullptr;
  const char* (*error_text)(int error) = nullptr;
  const char* (*last_error)(Comm comm) = nullptr;
  int (*group_start)() = nullptr;
  int (*group_end)() = nullptr;
  int (*all_gather)(const void* in, void* out, size_t count, int type, Comm comm,
                    void* queue) = nullptr;
  int (*broadcast)(const void* in, void* out, size_t count, int type, int root, Comm comm,
                   void* queue) = nullptr;
  int (*all_reduce)(const void* in, void* out, size_t count, int type, int operation, Comm comm,
                    void* queue) = nullptr;
};

std::string nccl_version_text(int version);

// kNotFound, kFailedPrecondition: no such library, or one that is too old. It is never closed.
absl::StatusOr<Nccl> load_nccl(const std::string& file);

// `met` brings the communicator's id from rank 0 to the others. They connect and gather once, for
// at most half of `timeout`, and tell each other how it went: where one of them failed all get
// null, with the same `problem`, and `met` is the caller's as before; else it stays for its
// abort(). An error is `met`'s, or kAborted once `cancelled` is true. Calls only queue work on the
// device; finish() waits for it, for at most `timeout`. all_reduce adds in NCCL's order, the same
// every time for the same ranks, not in the order of ranks. After any error the communicator is
// aborted, never destroyed, and every later call fails with that error.
absl::StatusOr<std::unique_ptr<Collective>> nccl_collective(
    const Nccl& nccl, std::unique_ptr<Collective>& met, Device& device,
    std::chrono::nanoseconds timeout, const std::atomic<bool>* cancelled, std::string* problem);

}  // namespace lockstep
