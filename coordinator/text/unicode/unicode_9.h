// SPDX-License-Identifier: Apache-2.0
// Character data that Hugging Face tokenizers read from Unicode 9's tables: marks, which
// StripAccents removes, and scripts, at whose borders UnicodeScripts splits. Free functions, for
// any thread.
#pragma once

namespace lockstep {

bool is_mark_of_unicode_9(char32_t code_point);

// The number of a script: Hiragana and Katakana count as Han. kAnyScript is for blanks, and for
// private and later characters: there is no split at them.
inline constexpr int kAnyScript = -1;
int script_of_unicode_9(char32_t code_point);

}  // namespace lockstep
