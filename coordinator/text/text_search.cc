// SPDX-License-Identifier: Apache-2.0
#include "coordinator/text/text_search.h"

#include <cstring>
#include <string>

namespace lockstep {

size_t find_text(std::string_view text, std::string_view wanted, size_t begin) {
  if (begin > text.size()) return std::string_view::npos;
  // glibc's memmem() takes linear time.
  const void* found =
      memmem(text.data() + begin, text.size() - begin, wanted.data(), wanted.size());
  if (found == nullptr) return std::string_view::npos;
  return static_cast<size_t>(static_cast<const char*>(found) - text.data());
}

// Searches the reversed texts from left to right.
size_t rfind_text(std::string_view text, std::string_view wanted) {
  const std::string reversed(text.rbegin(), text.rend());
  const size_t found = find_text(reversed, std::string(wanted.rbegin(), wanted.rend()));
  return found == std::string_view::npos ? found : text.size() - found - wanted.size();
}

}  // namespace lockstep
