// SPDX-License-Identifier: Apache-2.0
// Unicode normalization forms, in time linear in the text except for sorting each run of marks.
#pragma once

#include <string>
#include <string_view>

namespace lockstep {

enum class UnicodeForm { kNfc, kNfd, kNfkc, kNfkd };

// Characters newer than the tables of Hugging Face tokenizers (Unicode 9) stay unchanged. The text
// must be well-formed UTF-8; for any thread.
std::string to_unicode_form(std::string_view text, UnicodeForm form);

}  // namespace lockstep
