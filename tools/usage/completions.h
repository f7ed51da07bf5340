// SPDX-License-Identifier: Apache-2.0
// Scripts with which a shell completes commands, flags, words that a flag takes, and file names.
#pragma once

#include <span>
#include <string>

#include "tools/usage/usage.h"

namespace lockstep {

// Each function returns a whole file of completions of `lockstep` for the shell in its name.
std::string bash_completion(std::span<const CommandUsage> commands);
std::string zsh_completion(std::span<const CommandUsage> commands);
std::string fish_completion(std::span<const CommandUsage> commands);

}  // namespace lockstep
