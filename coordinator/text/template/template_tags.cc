// SPDX-License-Identifier: Apache-2.0
#include "coordinator/text/template/template_tags.h"

#include <algorithm>
#include <cctype>

#include "base/text_map.h"

namespace lockstep {
namespace {

constexpr size_t kMaxNameBytes = 64;

struct Brackets {
  std::string_view open;
  std::string_view close;
};
constexpr Brackets kBrackets[] = {{"<|", "|>"}, {"<\uFF5C", "\uFF5C>"}};

constexpr std::string_view kRoles[] = {"system", "developer", "user",        "human",  "assistant",
                                       "bot",    "model",     "tool",        "tools",  "function",
                                       "prompt", "answer",    "observation", "context"};

bool names_a_role(std::string_view name) {
  std::string lower(name);
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
  return std::ranges::find(kRoles, lower) != std::end(kRoles);
}

// A name has no blank, quote or brace. A text that has one of these is an expression, or is between
// two tags.
bool is_name(std::string_view text) {
  return !text.empty() && text.find_first_of(" \t\r\n'\"<>|{}+") == text.npos;
}

// Appends each tag once, in the order of the text.
void add_tags(std::string_view source, const Brackets& brackets, TextSet<std::string>* seen,
              std::vector<std::string>* tags) {
  for (size_t begin = source.find(brackets.open); begin != source.npos;
       begin = source.find(brackets.open, begin + 1)) {
    const size_t first = begin + brackets.open.size();
    const std::string_view rest = source.substr(first, kMaxNameBytes + brackets.close.size());
    const std::string_view name = rest.substr(0, rest.find(brackets.close));
    if (name.size() == rest.size() || !is_name(name) || names_a_role(name)) continue;
    const std::string tag = fmt::format("{}{}{}", brackets.open, name, brackets.close);
    if (seen->insert(tag).second) tags->push_back(tag);
  }
}

}  // namespace

std::vector<std::string> tags_without_token(const ChatTemplate& chat_template,
                                            const Tokenizer& tokenizer) {
  std::vector<std::string> tags;
  TextSet<std::string> seen;
  for (const std::string_view source : chat_template.sources()) {
    for (const Brackets& brackets : kBrackets) add_tags(source, brackets, &seen, &tags);
  }
  std::erase_if(tags, [&](const std::string& tag) {
    const std::optional<int32_t> id = tokenizer.token_id(tag);
    const auto ids = tokenizer.encode(tag, {.add_special = false});
    return id.has_value() && ids.ok() && std::ranges::find(*ids, *id) != ids->end();
  });
  return tags;
}

}  // namespace lockstep
