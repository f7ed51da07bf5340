// SPDX-License-Identifier: Apache-2.0
// Splits the code points at the borders of all sets, and refines the classes set by set.
#include <algorithm>
#include <iterator>
#include <unordered_map>

#include "coordinator/text/regex/regex_program.h"

namespace lockstep {

RegexAlphabet::RegexAlphabet(const std::vector<CodePointSet>& sets) {
  std::vector<char32_t> borders = {0, kLastCodePoint + 1};
  for (const CodePointSet& set : sets) {
    for (const CodePointSet::Range& range : set.ranges()) {
      borders.push_back(range.first);
      borders.push_back(range.last + 1);
    }
  }
  std::sort(borders.begin(), borders.end());
  borders.erase(std::unique(borders.begin(), borders.end()), borders.end());

  std::vector<uint32_t> class_of(borders.size() - 1);  // For each stretch between two borders.
  uint32_t classes = 1;
  for (const CodePointSet& set : sets) {
    std::unordered_map<uint32_t, uint32_t> inside;  // Old class -> new class.
    size_t i = 0;
    for (const CodePointSet::Range& range : set.ranges()) {
      i = static_cast<size_t>(std::lower_bound(borders.begin() + static_cast<ptrdiff_t>(i),
                                               borders.end(), range.first) -
                              borders.begin());
      for (; borders[i] <= range.last; ++i) {
        const auto [found, is_new] = inside.try_emplace(class_of[i], classes);
        classes += is_new ? 1 : 0;
        class_of[i] = found->second;
      }
    }
  }
  // Some classes are empty now: number the others without gaps.
  std::unordered_map<uint32_t, uint32_t> numbers;
  for (size_t i = 0; i < class_of.size(); ++i) {
    const auto [found, is_new] =
        numbers.try_emplace(class_of[i], static_cast<uint32_t>(numbers.size()));
    if (is_new) members_.push_back(borders[i]);
    class_of[i] = found->second;
  }
  edge_ = numbers.size();
  if (class_count() > kMaxClasses) return;

  std::unordered_map<uint32_t, uint32_t> uniform;  // Blocks with only one class are shared.
  size_t stretch = 0;
  for (char32_t first = 0; first <= kLastCodePoint; first += kBlock) {
    while (borders[stretch + 1] <= first) ++stretch;
    const auto here = static_cast<uint32_t>(blocks_.size());
    if (borders[stretch + 1] >= first + kBlock) {
      const auto [found, is_new] = uniform.try_emplace(class_of[stretch], here);
      block_of_.push_back(found->second);
      if (is_new) blocks_.insert(blocks_.end(), kBlock, static_cast<uint16_t>(class_of[stretch]));
      continue;
    }
    block_of_.push_back(here);
    for (char32_t c = first; c < first + kBlock; ++c) {
      while (borders[stretch + 1] <= c) ++stretch;
      blocks_.push_back(static_cast<uint16_t>(class_of[stretch]));
    }
  }
}

}  // namespace lockstep
