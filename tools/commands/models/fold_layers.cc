// SPDX-License-Identifier: Apache-2.0
// Two layers are compared number by number. Indices of values may be higher or lower in the second
// layer, but all that differ must differ by the same number. The same holds for indices of weights,
// for those of states, for the numbers of instructions and for the layer's own number. Places in
// memory may differ in any way. All other numbers must be equal.
#include "tools/commands/models/fold_layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace lockstep {
namespace {

enum Kind { kPlain, kLayer, kValue, kWeight, kState, kIndex, kPlace, kKinds };

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }
bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }

// The kind of the number at `at`, from the text before it.
Kind kind_of(std::string_view line, size_t at) {
  const std::string_view before = line.substr(0, at);
  const char last = before.empty() ? ' ' : before.back();
  const char earlier = before.size() < 2 ? ' ' : before[before.size() - 2];
  if (last == '%') return kValue;
  if (last == '@') return kPlace;
  if (last == '.' && is_letter(earlier)) return kLayer;
  if (last == 'w' && !is_letter(earlier)) return kWeight;
  if (last == 's' && !is_letter(earlier)) return kState;
  if (before.ends_with("state ")) return kState;
  if (before.find_first_not_of(' ') == std::string_view::npos) return kIndex;
  return kPlain;
}

// Returns the number at `at`, and moves `at` to the end of that number. Nullopt if the number is
// too long: then it is compared as text.
std::optional<int64_t> take_number(std::string_view line, size_t& at) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(line.data() + at, line.data() + line.size(), number);
  while (at < line.size() && is_digit(line[at])) ++at;
  if (error != std::errc()) return std::nullopt;
  return number;
}

// The largest layer that a line names.
std::optional<int64_t> layer_of(std::string_view line) {
  std::optional<int64_t> layer;
  for (size_t at = 0; at < line.size();) {
    if (!is_digit(line[at])) {
      ++at;
      continue;
    }
    const Kind kind = kind_of(line, at);
    const std::optional<int64_t> number = take_number(line, at);
    if (kind == kLayer && number) layer = std::max(layer.value_or(0), *number);
  }
  return layer;
}

// The distance between two layers' indices, by kind of index.
struct IndexShifts {
  std::array<std::optional<int64_t>, kKinds> by;
  bool places = false;  // Some place in memory differs.

  bool allows(Kind kind, int64_t from, int64_t to) {
    if (from == to) return true;
    if (kind == kPlain) return false;
    if (kind == kPlace) return places = true;
    if (!by[kind]) by[kind] = to - from;
    return *by[kind] == to - from;
  }
};

bool same_line(std::string_view a, std::string_view b, IndexShifts& shifts) {
  // Indices are right-aligned, so equal lines may begin in different columns.
  size_t i = std::min(a.find_first_not_of(' '), a.size());
  size_t j = std::min(b.find_first_not_of(' '), b.size());
  while (i < a.size() && j < b.size()) {
    if (!is_digit(a[i]) || !is_digit(b[j])) {
      if (a[i++] != b[j++]) return false;
      continue;
    }
    const Kind kind = kind_of(a, i);
    if (kind != kind_of(b, j)) return false;
    const size_t begin_a = i, begin_b = j;
    const std::optional<int64_t> from = take_number(a, i), to = take_number(b, j);
    const bool same_text = a.substr(begin_a, i - begin_a) == b.substr(begin_b, j - begin_b);
    if (!same_text && (!from || !to || !shifts.allows(kind, *from, *to))) return false;
  }
  return i == a.size() && j == b.size();
}

// Consecutive lines of one layer, or of none (-1).
struct LineBlock {
  int64_t layer = -1;
  std::vector<std::string_view> lines;
};

std::vector<LineBlock> blocks_of(std::string_view listing) {
  std::vector<LineBlock> blocks(1);
  while (!listing.empty()) {
    const size_t end = std::min(listing.find('\n'), listing.size() - 1);
    const std::string_view line = listing.substr(0, end);
    listing.remove_prefix(end + 1);
    const std::optional<int64_t> layer = layer_of(line);
    if (layer && *layer != blocks.back().layer) blocks.push_back({.layer = *layer, .lines = {}});
    blocks.back().lines.push_back(line);
  }
  return blocks;
}

// Compares `block` with `shown`. Returns how many lines of `block` belong to its layer, since the
// last block also has the lines after the last layer. Nullopt if the layers differ.
std::optional<size_t> same_layer(const LineBlock& shown, const LineBlock& block, bool last,
                                 IndexShifts& shifts) {
  const size_t count = shown.lines.size();
  const bool fits = last ? block.lines.size() >= count : block.lines.size() == count;
  if (shown.layer < 0 || block.layer <= shown.layer || !fits) return std::nullopt;
  shifts.by[kLayer] = block.layer - shown.layer;
  for (size_t i = 0; i < count; ++i) {
    if (!same_line(shown.lines[i], block.lines[i], shifts)) return std::nullopt;
  }
  return count;
}

std::string folded_line(int64_t first, int64_t last, int64_t shown, bool other_places) {
  const std::string layers =
      first == last ? fmt::format("layer {}", first) : fmt::format("layers {}-{}", first, last);
  return fmt::format("    {}: as layer {}{}\n", layers, shown,
                     other_places ? ", at other places in memory" : "");
}

}  // namespace

std::string fold_layers(std::string_view listing) {
  const std::vector<LineBlock> blocks = blocks_of(listing);
  std::string text;
  const auto append = [&](std::span<const std::string_view> lines) {
    for (const std::string_view line : lines) text.append(line).append("\n");
  };
  for (size_t shown = 0; shown < blocks.size();) {
    append(blocks[shown].lines);
    IndexShifts shifts;
    size_t next = shown + 1, rest = 0;
    for (; next < blocks.size() && rest == 0; ++next) {
      IndexShifts one;
      // A layer that is followed by a smaller one, or by none, ends a part of the listing.
      const bool last = next + 1 == blocks.size() || blocks[next + 1].layer <= blocks[next].layer;
      const auto count = same_layer(blocks[shown], blocks[next], last, one);
      if (!count) break;
      shifts.places |= one.places;
      if (last) rest = *count;
    }
    if (next > shown + 1) {
      text += folded_line(blocks[shown + 1].layer, blocks[next - 1].layer, blocks[shown].layer,
                          shifts.places);
      if (rest > 0) append(std::span(blocks[next - 1].lines).subspan(rest));
    }
    shown = next;
  }
  return text;
}

}  // namespace lockstep
