// SPDX-License-Identifier: Apache-2.0
#include "base/status.h"

#include <system_error>

namespace lockstep {

std::string error_text(int error) { return std::generic_category().message(error); }

std::string printable(std::string_view text) {
  constexpr size_t kMax = 120;
  std::string shown(text.substr(0, kMax));
  for (char& c : shown) {
    if (c < ' ' || c > '~') c = '?';
  }
  if (text.size() > kMax) shown.replace(kMax - 3, 3, "...");
  return shown;
}

}  // namespace lockstep
