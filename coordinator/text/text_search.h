// SPDX-License-Identifier: Apache-2.0
// Searches in time linear in the two texts' sizes, which std::string's find() does not promise:
// clients choose both texts.
#pragma once

#include <cstddef>
#include <string_view>

namespace lockstep {

// The first place of `wanted` in `text`, from `begin` on; npos: none.
size_t find_text(std::string_view text, std::string_view wanted, size_t begin = 0);
// The last place of `wanted` in `text`; npos: none.
size_t rfind_text(std::string_view text, std::string_view wanted);

}  // namespace lockstep
