// SPDX-License-Identifier: Apache-2.0
// The page of `lockstep inspect --html`: one file, which loads nothing else.
#pragma once

#include <string>

#include "tools/inspect/program_json.h"

namespace lockstep {

// HTML that contains its style, its script and the program. Its policy allows only these, by hash,
// so it may also be served where inline scripts are forbidden by default.
std::string program_page(const InspectedProgram& inspected);

}  // namespace lockstep
