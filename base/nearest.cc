// SPDX-License-Identifier: Apache-2.0
// Levenshtein distance, computed row by row.
#include "base/nearest.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace lockstep {

size_t edit_distance(std::string_view a, std::string_view b) {
  // For each prefix of `b`: its distance to the letters of `a` that were read so far.
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i + 1);
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, diagonal + 1, row[j] + 1});
    }
  }
  return row.back();
}

std::vector<std::string_view> nearest(std::string_view name, std::vector<std::string_view> names,
                                      size_t count) {
  constexpr size_t kMaxLetters = 256;  // edit_distance() allocates a number per letter of `name`.
  name = name.substr(0, kMaxLetters);
  std::vector<std::pair<size_t, std::string_view>> by_distance;
  for (const std::string_view known : names) {
    const std::pair<size_t, std::string_view> entry = {edit_distance(known, name), known};
    if (std::ranges::find(by_distance, entry) == by_distance.end()) by_distance.push_back(entry);
  }
  std::ranges::stable_sort(by_distance, {}, &std::pair<size_t, std::string_view>::first);
  names.clear();
  for (const auto& entry : by_distance) names.push_back(entry.second);
  names.resize(std::min(names.size(), count));
  return names;
}

}  // namespace lockstep
