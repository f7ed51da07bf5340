// SPDX-License-Identifier: Apache-2.0
#include "models/size_names.h"

#include <algorithm>
#include <set>
#include <string>
#include <string_view>

#include "models/config_keys.h"

namespace lockstep {
namespace {

// Words of one meaning; "": the word says nothing by itself.
struct Word {
  std::string_view word;
  std::string_view meaning;
};
constexpr Word kWords[] = {
    {"num", ""},
    {"n", ""},
    {"number", ""},
    {"of", ""},
    {"per", ""},
    {"local", ""},
    {"routed", ""},
    {"attention", ""},
    {"attn", ""},
    {"experts", "expert"},
    {"moe", "expert"},
    {"expert", "expert"},
    {"heads", "head"},
    {"head", "head"},
    {"layers", "layer"},
    {"layer", "layer"},
    {"blocks", "layer"},
    {"kv", "kv"},
    {"key", "kv"},
    {"value", "kv"},
    {"hidden", "hidden"},
    {"model", "hidden"},
    {"embd", "hidden"},
    {"embed", "hidden"},
    {"intermediate", "ffn"},
    {"inner", "ffn"},
    {"ffn", "ffn"},
    {"mlp", "ffn"},
    {"vocab", "vocab"},
    {"shared", "shared"},
    {"tok", "token"},
    {"token", "token"},
    {"size", "width"},
    {"dim", "width"},
    {"width", "width"},
    {"d", "width"},
};

using Meanings = std::set<std::string_view>;

// Empty where a word is none of a size's.
Meanings meanings_of(std::string_view key) {
  Meanings meanings;
  while (!key.empty()) {
    const size_t end = std::min(key.find('_'), key.size());
    const std::string_view word = key.substr(0, end);
    key.remove_prefix(std::min(end + 1, key.size()));
    const auto known = std::ranges::find(kWords, word, &Word::word);
    if (known == std::end(kWords)) return {};
    if (!known->meaning.empty()) meanings.insert(known->meaning);
  }
  return meanings;
}

// The size that the family reads, that the config lacks, and that these words may mean; "": none.
std::string_view missing_size(const Meanings& meanings, const Json& json, const Family& family) {
  for (const std::string_view size : read_keys(family)) {
    const Meanings wanted = meanings_of(size);
    if (wanted.empty() || !json.value(std::string(size), Json()).is_null()) continue;
    if (std::ranges::includes(wanted, meanings) || std::ranges::includes(meanings, wanted)) {
      return size;
    }
  }
  return "";
}

}  // namespace

absl::Status check_ignored_sizes(const Json& ignored, const Json& json, const Family& family) {
  for (const auto& [key, value] : ignored.items()) {
    const Meanings meanings = meanings_of(key);
    if (meanings.empty() || !value.is_number()) continue;
    const std::string_view size = missing_size(meanings, json, family);
    if (size.empty()) continue;
    return invalid_argument(
        "--ignore-config {0}: it may be {1}, which the config lacks and whose default may be "
        "wrong: write {1} into config.json",
        printable(key), size);
  }
  return absl::OkStatus();
}

}  // namespace lockstep
