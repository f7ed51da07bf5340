// SPDX-License-Identifier: Apache-2.0
// The command line, read by flags. A refusal is one line: what a flag must be, and what was found.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "base/flag.h"

namespace lockstep {

// Each default is shown that is not 0 or empty, and of which the help does not speak.
void add_flags(CLI::App& app, const std::vector<Flag>& flags);

// What the parser refused, in one line that says where to read on: of `app`, to which `error`
// belongs, or of its command that was named.
std::string explain(const CLI::ParseError& error, const CLI::App& app);

}  // namespace lockstep
