// SPDX-License-Identifier: Apache-2.0
// Patterns in tokenizer.json are written for Oniguruma (Ruby syntax, Unicode 16). This rewrites one
// for PCRE2 so that it means the same; what would mean something else is refused.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace lockstep {

inline constexpr size_t kMaxPatternBytes = 4096;

// InvalidArgument names the construct that is not supported. The result is for PCRE2_UTF, PCRE2_UCP
// and PCRE2_MULTILINE. Wants well-formed UTF-8.
absl::StatusOr<std::string> to_pcre2(std::string_view pattern);

}  // namespace lockstep
