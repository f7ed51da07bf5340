// SPDX-License-Identifier: Apache-2.0
// A fuzzer's bytes as numbers and texts.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace lockstep {

// Draws numbers and texts from bytes; 0 and "" after their end.
class Draw {
 public:
  explicit Draw(std::string_view bytes) : bytes_(bytes) {}

  bool is_over() const { return bytes_.empty(); }
  unsigned number() {
    if (bytes_.empty()) return 0;
    const auto byte = static_cast<unsigned char>(bytes_[0]);
    bytes_.remove_prefix(1);
    return byte;
  }
  std::string text(size_t max) {
    const std::string taken(bytes_.substr(0, number() % (max + 1)));
    bytes_.remove_prefix(std::min(taken.size(), bytes_.size()));
    return taken;
  }

 private:
  std::string_view bytes_;
};

}  // namespace lockstep
