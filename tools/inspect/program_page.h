// SPDX-License-Identifier: Apache-2.0
// The page of `lockstep inspect --html`: one file, which loads nothing from anywhere.
#pragma once

#include <string>

#include "tools/inspect/program_json.h"

namespace lockstep {

// HTML with its style, its script and the program in it. Its policy lets run what is in it by hash,
// and nothing else, so it may also be served where inline scripts are forbidden by default.
std::string program_page(const InspectedProgram& inspected);

}  // namespace lockstep
