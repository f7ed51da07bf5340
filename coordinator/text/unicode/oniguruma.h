// SPDX-License-Identifier: Apache-2.0
// Oniguruma, the library whose dialect the patterns of tokenizer.json use. It checks that patterns
// are well-formed, and matches the few that our own engine does not support.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "base/status.h"

struct OnigEncodingTypeST;
struct re_pattern_buffer;

namespace lockstep {

// Oniguruma's UTF-8 encoding, initialized.
OnigEncodingTypeST* onig_utf8();

// Immutable once compiled, for any thread.
class OnigurumaRegex {
 public:
  // The pattern must be well-formed UTF-8. kInvalidArgument describes the error in it.
  static absl::StatusOr<OnigurumaRegex> compile(std::string_view pattern);

  // The first match that begins at `from` or later, in bytes. The search backtracks as far as the
  // pattern requires: kResourceExhausted if that takes too many steps.
  absl::StatusOr<std::optional<std::pair<size_t, size_t>>> search(std::string_view text,
                                                                  size_t from) const;

 private:
  struct Free {
    void operator()(re_pattern_buffer* regex) const;
  };
  explicit OnigurumaRegex(re_pattern_buffer* regex) : regex_(regex, Free()) {}

  std::shared_ptr<re_pattern_buffer> regex_;
};

}  // namespace lockstep
