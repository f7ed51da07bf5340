// SPDX-License-Identifier: Apache-2.0
// Lists of names in messages.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace lockstep {

// "a, b, c and 2 more": at most `max` of the names, each as printable() shows it.
std::string first_names(std::span<const std::string> names, size_t max = 3);

}  // namespace lockstep
