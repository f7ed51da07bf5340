// SPDX-License-Identifier: Apache-2.0
// What the reference knows of characters by tables of Unicode 9: marks, as its StripAccents removes
// them, and scripts, at whose borders its UnicodeScripts cuts. Free functions, for any thread.
#pragma once

namespace lockstep {

bool is_mark_of_unicode_9(char32_t code_point);

// The number of a script: Hiragana and Katakana count as Han. kAnyScript is a blank's, that of
// private and later characters: it cuts nothing.
inline constexpr int kAnyScript = -1;
int script_of_unicode_9(char32_t code_point);

}  // namespace lockstep
