// SPDX-License-Identifier: Apache-2.0
// What the public ports serve.
#pragma once

#include "coordinator/api/api_keys.h"
#include "coordinator/engine.h"
#include "coordinator/model.h"

namespace lockstep {

// All outlive the ports.
struct ServedModel {
  const Model* model = nullptr;
  Engine* engine = nullptr;
  int workers = 1;                // Of a complete group.
  const ApiKeys* keys = nullptr;  // That clients need one of; null: none.
};

}  // namespace lockstep
