// SPDX-License-Identifier: Apache-2.0
// Reads the command line into flags. A refusal is one line: the expected and the found value.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "base/flag.h"

namespace lockstep {

// Adds the flags to `app`. --help shows each default that is not 0 or empty, unless the flag's help
// text states it.
void add_flags(CLI::App& app, const std::vector<Flag>& flags);

// One line with the parser's refusal and the command whose --help explains more: the command that
// was given, else `app`. `error` is an error of `app`.
std::string explain(const CLI::ParseError& error, const CLI::App& app);

}  // namespace lockstep
