// SPDX-License-Identifier: Apache-2.0
// The model families. Each has one file with its own parts of the graph, and its rows in the table
// of architectures; families.inc lists them.
#pragma once

#include "models/architecture.h"

namespace lockstep::families {

#define LOCKSTEP_FAMILY(name) \
  namespace name {            \
  Architectures rows();       \
  }
#include "models/families/families.inc"

}  // namespace lockstep::families
