// SPDX-License-Identifier: Apache-2.0
#include "tools/usage/usage.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"

namespace lockstep {
namespace {

OptionUsage read_option(const CLI::Option& option) {
  OptionUsage usage;
  for (const std::string& name : option.get_lnames()) usage.names.push_back("--" + name);
  for (const std::string& name : option.get_snames()) usage.names.push_back("-" + name);
  if (usage.names.empty()) usage.names.push_back(option.get_single_name());
  usage.form = option.get_items_expected_max() > 0 ? option.get_type_name() : "";
  usage.help = option.get_description();
  usage.default_text = option.get_default_str();
  usage.variable = option.get_envname();
  usage.is_repeatable = option.get_items_expected_max() > 1;
  usage.is_required = option.get_required();
  return usage;
}

void add_commands(const CLI::App& app, const std::string& name, std::vector<CommandUsage>& found) {
  CommandUsage usage = {.name = name, .about = app.get_description(), .footer = app.get_footer()};
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;
    (option->nonpositional() ? usage.flags : usage.arguments).push_back(read_option(*option));
  }
  found.push_back(std::move(usage));
  const std::function<bool(const CLI::App*)> all;
  for (const CLI::App* command : app.get_subcommands(all)) {
    add_commands(*command, name.empty() ? command->get_name() : name + " " + command->get_name(),
                 found);
  }
}

}  // namespace

std::vector<std::string> OptionUsage::words() const {
  std::vector<std::string> words = absl::StrSplit(form, '|', absl::SkipEmpty());
  std::erase_if(words, [](const std::string& word) {
    return std::ranges::any_of(word, [](unsigned char c) { return absl::ascii_isupper(c); });
  });
  return words;
}

bool OptionUsage::takes_path() const {
  const std::vector<std::string> parts = absl::StrSplit(form, '|');
  return std::ranges::any_of(
      parts, [](const std::string& part) { return part == "FILE" || part == "FOLDER"; });
}

std::vector<CommandUsage> usage_of(const CLI::App& app) {
  std::vector<CommandUsage> found;
  add_commands(app, "", found);
  return found;
}

std::string first_clause(std::string_view text) {
  size_t end = text.size();
  for (const std::string_view stop : {"\n", ". ", "; ", ": ", " ("}) {
    end = std::min(end, text.find(stop));
  }
  text = text.substr(0, end);
  if (text.ends_with('.')) text.remove_suffix(1);
  return std::string(text);
}

}  // namespace lockstep
