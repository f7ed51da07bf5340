// SPDX-License-Identifier: Apache-2.0
#include "base/first_names.h"

#include <algorithm>

#include "base/status.h"

namespace lockstep {

std::string first_names(std::span<const std::string> names, size_t max) {
  const size_t count = std::min(names.size(), max);
  std::string text;
  for (size_t i = 0; i < count; ++i) text += (i == 0 ? "" : ", ") + printable(names[i]);
  return names.size() > count ? fmt::format("{} and {} more", text, names.size() - count) : text;
}

}  // namespace lockstep
