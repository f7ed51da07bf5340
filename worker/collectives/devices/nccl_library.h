// SPDX-License-Identifier: Apache-2.0
// The library NCCL. Nothing is linked with it: the process looks for it when it needs it. Its
// functions are declared here as version 2.18 and later have them.
#pragma once

#include <array>
#include <climits>
#include <cstddef>
#include <string>

#include "absl/status/statusor.h"

namespace lockstep {

// The functions that are used. Results are NCCL's: 0 is success, 7 "in progress".
struct Nccl {
  struct Id {
    std::array<char, 128> bytes{};
  };
  // The fields of version 2.18: NCCL reads `size` bytes and gives later fields their defaults.
  struct Config {
    size_t size = sizeof(Config);
    unsigned magic = 0xcafebeef;
    unsigned version = 21800;
    int blocking = 1;
    int cga_cluster_size = INT_MIN;  // INT_MIN and null: NCCL's choice.
    int min_ctas = INT_MIN;
    int max_ctas = INT_MIN;
    const char* net_name = nullptr;
    int split_share = INT_MIN;
    int traffic_class = INT_MIN;  // Padding before 2.24.
  };
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

// `file` is the library's path or "off"; "" means the file that LOCKSTEP_NCCL names, else the one
// that base/system/vendor_library.h finds. kNotFound: there is no such library.
// kFailedPrecondition: the library is too old. kCancelled: NCCL is switched off. The library is
// never closed.
absl::StatusOr<Nccl> load_nccl(const std::string& file);

}  // namespace lockstep
