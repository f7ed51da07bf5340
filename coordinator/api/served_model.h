// SPDX-License-Identifier: Apache-2.0
// What the public port serves.
#pragma once

#include "coordinator/engine.h"
#include "coordinator/model.h"

namespace lockstep {

// All outlive the port.
struct ServedModel {
  const Model* model = nullptr;
  Engine* engine = nullptr;
  int workers = 1;  // Of a complete group.
};

}  // namespace lockstep
