// SPDX-License-Identifier: Apache-2.0
// The manual page lockstep(1), in roff with the macros of man(7).
#pragma once

#include <span>
#include <string>

#include "tools/usage/usage.h"

namespace lockstep {

// Flags with the same text in several commands are described once, in a section of their own.
std::string man_page(std::span<const CommandUsage> commands, const std::string& version);

}  // namespace lockstep
