// SPDX-License-Identifier: Apache-2.0
// The coordinator's view of a worker at one moment, for `lockstep workers`.
#pragma once

#include <cstdint>
#include <string>

namespace lockstep {

struct WorkerState {
  enum class Role {
    kServing,  // A rank of the group.
    kLoading,  // A rank of the group being formed.
    kSpare,    // It waits to replace a lost rank.
    kWaiting,  // It waits for a group.
  };
  Role role = Role::kWaiting;
  int rank = -1;  // For kServing and kLoading.
  // These are from its Hello.
  std::string host;
  int64_t pid = 0;
  std::string device;
  std::string isa;
  std::string numeric_class;
  std::string data_address;  // "": it can only be in a group of its own host.
  int64_t memory_bytes = 0;

  int64_t weight_bytes = 0;  // In its memory, possibly for a later group.
  int covers = -1;           // The rank whose weights it preloaded; -1: none.
  int64_t covers_ms = 0;     // Since these weights were loaded.
  int64_t joined_ms = 0;     // Since it joined.
  int64_t heard_ms = 0;      // Since its last message.
};

// "serving"
const char* role_name(WorkerState::Role role);

}  // namespace lockstep
