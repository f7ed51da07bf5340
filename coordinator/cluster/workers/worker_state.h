// SPDX-License-Identifier: Apache-2.0
// A worker as the coordinator sees it at one moment, for people: `lockstep workers`.
#pragma once

#include <cstdint>
#include <string>

namespace lockstep {

struct WorkerState {
  enum class Role {
    kServing,  // A rank of the group.
    kLoading,  // A rank of the group that is being formed.
    kSpare,    // It waits for a rank that is lost.
    kWaiting,  // It waits for a group.
  };
  Role role = Role::kWaiting;
  int rank = -1;  // Of kServing and kLoading.
  // From its Hello.
  std::string host;
  int64_t pid = 0;
  std::string device;
  std::string isa;
  std::string numeric_class;
  std::string data_address;  // "": it meets its peers on its own host only.
  int64_t memory_bytes = 0;

  int64_t weight_bytes = 0;  // That it holds, also for a later group.
  int holds = -1;            // Whose rank's weights these are, while it has none; -1: nobody's.
  int64_t holds_ms = 0;      // Since it does.
  int64_t joined_ms = 0;     // Since it joined.
  int64_t heard_ms = 0;      // Since its last message.
};

// "serving"
const char* role_name(WorkerState::Role role);

}  // namespace lockstep
