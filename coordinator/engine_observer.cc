// SPDX-License-Identifier: Apache-2.0
#include "coordinator/engine_observer.h"

namespace lockstep {

const char* engine_part_name(EnginePart part) {
  switch (part) {
    case EnginePart::kIdle:
      return "idle";
    case EnginePart::kWait:
      return "wait";
    case EnginePart::kDecide:
      return "decide";
    case EnginePart::kSend:
      return "send";
    case EnginePart::kTell:
      return "tell";
  }
  return "";
}

int64_t coordinator_ns(const EngineTimes& times) {
  int64_t sum = 0;
  for (const EnginePart part : {EnginePart::kDecide, EnginePart::kSend, EnginePart::kTell}) {
    sum += times[static_cast<size_t>(part)];
  }
  return sum;
}

}  // namespace lockstep
