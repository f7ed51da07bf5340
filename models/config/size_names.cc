// SPDX-License-Identifier: Apache-2.0
#include "models/config/size_names.h"

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "base/status.h"

namespace lockstep {
namespace {

// Words grouped by meaning; "": the word does not identify a size.
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
    {"total", ""},
    {"count", ""},
    {"multi", ""},
    {"forward", ""},
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
    {"gqa", "kv"},
    {"query", "query"},
    {"group", "group"},
    {"groups", "group"},
    {"hidden", "hidden"},
    {"model", "hidden"},
    {"embd", "hidden"},
    {"embed", "hidden"},
    {"intermediate", "ffn"},
    {"inner", "ffn"},
    {"ffn", "ffn"},
    {"ff", "ffn"},
    {"feed", "ffn"},
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

// Removes meanings that add nothing: "num_hidden_layers" counts layers like "n_layers",
// "hidden_size" is a width like "n_embd", and the number of query groups is that of KV heads.
Meanings plain(Meanings meanings) {
  if (meanings.contains("query") && meanings.contains("group")) meanings.insert("kv");
  meanings.erase("query");
  if (meanings.contains("kv")) {
    meanings.erase("group");
    if (!meanings.contains("width")) meanings.erase("head");
  }
  if (meanings.contains("layer")) meanings.erase("hidden");
  for (const char* width : {"hidden", "ffn", "vocab"}) {
    if (meanings.contains(width)) meanings.erase("width");
  }
  return meanings;
}

// Empty if a word is not in the table.
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
  return plain(std::move(meanings));
}

// A size that the family reads and the config lacks, if all its meanings are in `meanings`; "":
// none.
std::string_view missing_size(const Meanings& meanings, const Json& json,
                              const std::set<std::string, std::less<>>& read) {
  for (const std::string_view size : read) {
    const Meanings wanted = meanings_of(size);
    if (wanted.empty() || !json.value(std::string(size), Json()).is_null()) continue;
    if (std::ranges::includes(meanings, wanted)) return size;
  }
  return "";
}

}  // namespace

absl::Status check_ignored_size(std::string_view key, const Json& value, const Json& json,
                                const std::set<std::string, std::less<>>& read) {
  const Meanings meanings = meanings_of(key);
  if (meanings.empty() || !value.is_number()) return absl::OkStatus();
  const std::string_view size = missing_size(meanings, json, read);
  if (size.empty()) return absl::OkStatus();
  return invalid_argument(
      "--ignore-config {0}: it may be {1}, which the config lacks, and the default of {1} may be "
      "wrong: write {1} into config.json",
      printable(key), size);
}

}  // namespace lockstep
