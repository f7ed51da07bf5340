// SPDX-License-Identifier: Apache-2.0
// Finds the names that a misspelled name may mean.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace lockstep {

// The min number of insertions, deletions and replacements of letters that turn `a` into `b`.
size_t edit_distance(std::string_view a, std::string_view b);

// The `count` names with the smallest edit_distance() to `name`, nearest first; ties keep their
// order. Each name appears once.
std::vector<std::string_view> nearest(std::string_view name, std::vector<std::string_view> names,
                                      size_t count);

}  // namespace lockstep
