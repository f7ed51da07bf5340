// SPDX-License-Identifier: Apache-2.0
#include "base/status.h"

#include <system_error>

namespace lockstep {

std::string error_text(int error) { return std::generic_category().message(error); }

std::string printable(std::string_view text) {
  constexpr size_t kMost = 120;
  std::string shown(text.substr(0, kMost));
  for (char& c : shown) {
    if (c < ' ' || c > '~') c = '?';
  }
  if (text.size() > kMost) shown.replace(kMost - 3, 3, "...");
  return shown;
}

}  // namespace lockstep
