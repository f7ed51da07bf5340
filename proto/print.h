// SPDX-License-Identifier: Apache-2.0
// A Program as text for people and golden tests.
#pragma once

#include <string>

#include "proto/program.pb.h"

namespace lockstep {

// Header, limits, weights with their recipes, states, then one line per instruction with the names,
// types, shapes and places of its values. Accepts any Program, valid or not.
std::string to_text(const program::Program& program);

}  // namespace lockstep
