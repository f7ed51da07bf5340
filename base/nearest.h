// SPDX-License-Identifier: Apache-2.0
// Names that a wrong one may have meant.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace lockstep {

// The fewest insertions, deletions and replacements of letters that make `b` of `a`.
size_t edit_distance(std::string_view a, std::string_view b);

// The `count` names that take the fewest insertions, deletions and replacements of letters to
// become `name`, the nearest first; of equally near ones those that come first. Each name once.
std::vector<std::string_view> nearest(std::string_view name, std::vector<std::string_view> names,
                                      size_t count);

}  // namespace lockstep
