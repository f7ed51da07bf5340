// SPDX-License-Identifier: Apache-2.0
#include "tools/usage/man_page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace lockstep {
namespace {

// Flags with the same text in this many commands are described once.
constexpr size_t kShared = 3;

constexpr char kHead[] = R"(.\" Made by `lockstep completion man`.
.TH LOCKSTEP 1 "" "lockstep {}" "User Commands"
.nh
.ad l
.SH NAME
lockstep \- {}
.SH SYNOPSIS
.B lockstep
.I COMMAND
[\fIOPTIONS\fR]
.SH DESCRIPTION
{}.SH OPTIONS
)";

constexpr char kEnd[] = R"(.SH EXIT STATUS
.TP
0
Success.
.TP
1
A fault of lockstep itself, or a check that failed.
.TP
2
An error that the user can fix: a flag, a file, a limit.
.TP
130
The command was interrupted.
)";

// Text for roff. A line never begins with "." or "'": roff would read it as a request.
std::string escaped(const std::string& text) {
  std::string safe = absl::StrReplaceAll(text, {{"\\", "\\e"}, {"-", "\\-"}});
  if (safe.starts_with('.') || safe.starts_with('\'')) safe.insert(0, "\\&");
  return safe;
}

// Paragraphs. A line with two blanks in a row belongs to an example or a table, and stays a line.
std::string paragraphs(const std::string& text) {
  std::string page;
  bool is_verbatim = false;
  const std::vector<std::string> lines = absl::StrSplit(absl::StripSuffix(text, "\n"), '\n');
  for (const std::string& line : lines) {
    if (line.empty()) {
      page += is_verbatim ? ".fi\n.PP\n" : ".PP\n";
      is_verbatim = false;
      continue;
    }
    if ((line.find("  ") != line.npos) != is_verbatim) {
      page += is_verbatim ? ".fi\n" : ".nf\n";
      is_verbatim = !is_verbatim;
    }
    page += escaped(line) + "\n";
  }
  return page + (is_verbatim ? ".fi\n" : "");
}

std::string option_text(const OptionUsage& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.names) names.push_back("\\fB" + escaped(name) + "\\fR");
  std::string text = fmt::format(".TP\n{}", fmt::join(names, ", "));
  // roff may break a long list of words after each "|".
  const std::string form = absl::StrReplaceAll(escaped(option.form), {{"|", "|\\:"}});
  if (!form.empty()) text += " \\fI" + form + "\\fR";
  if (option.is_repeatable) text += " ...";
  text += "\n" + escaped(option.help) + "\n";
  std::vector<std::string> notes;
  if (option.is_required) notes.emplace_back("required");
  if (!option.default_text.empty()) notes.push_back("default: " + option.default_text);
  if (!option.variable.empty()) notes.push_back("environment: " + option.variable);
  if (!notes.empty())
    text += fmt::format("({})\n", escaped(fmt::format("{}", fmt::join(notes, "; "))));
  return text;
}

// The text of a flag without its environment variable. Commands that share the flag have this text
// in common.
std::string key_of(OptionUsage option) {
  option.variable = "";
  return option_text(option);
}

std::string usage_line(const CommandUsage& command) {
  std::string line = "lockstep " + command.name + " [OPTIONS]";
  for (const OptionUsage& argument : command.arguments) {
    line += argument.is_required ? " " + argument.names[0] : " [" + argument.names[0] + "]";
  }
  return line;
}

// The section of one command. It has only the names of flags in `shared`.
std::string command_section(const CommandUsage& command,
                            const std::map<std::string, std::vector<std::string>>& shared) {
  std::string page =
      fmt::format(".SS \"{}\"\n{}", escaped(usage_line(command)), paragraphs(command.about));
  std::vector<std::string> others;
  for (const OptionUsage& argument : command.arguments) {
    if (!shared.contains(key_of(argument))) page += option_text(argument);
  }
  for (const OptionUsage& flag : command.flags) {
    if (shared.contains(key_of(flag))) {
      others.push_back(escaped(flag.names[0]));
    } else {
      page += option_text(flag);
    }
  }
  if (!others.empty()) {
    page += fmt::format(".PP\nShared flags, described below: {}.\n", fmt::join(others, ", "));
  }
  if (!command.footer.empty()) page += ".PP\n" + paragraphs(command.footer);
  return page;
}

}  // namespace

std::string man_page(std::span<const CommandUsage> commands, const std::string& version) {
  std::map<std::string, std::vector<std::string>> shared;  // By key_of(): the commands.
  std::vector<std::string> order;
  for (const CommandUsage& command : commands) {
    for (const auto* options : {&command.arguments, &command.flags}) {
      for (const OptionUsage& option : *options) {
        std::vector<std::string>& users = shared[key_of(option)];
        if (users.empty()) order.push_back(key_of(option));
        users.push_back(command.name.empty() ? "lockstep" : command.name);
      }
    }
  }
  std::erase_if(shared, [](const auto& flag) { return flag.second.size() < kShared; });

  const CommandUsage& program = commands[0];
  std::string purpose = first_clause(program.about);
  purpose[0] = absl::ascii_tolower(static_cast<unsigned char>(purpose[0]));
  std::string page = fmt::format(kHead, version, escaped(purpose), paragraphs(program.about));
  for (const OptionUsage& flag : program.flags) page += option_text(flag);
  page += ".SH COMMANDS\n";
  for (const CommandUsage& command : commands.subspan(1)) page += command_section(command, shared);
  page += ".SH SHARED FLAGS\n";
  for (const std::string& text : order) {
    const auto found = shared.find(text);
    if (found == shared.end()) continue;
    page += text;
    if (found->second.size() + 2 < commands.size()) {
      page += fmt::format("({})\n", fmt::join(found->second, ", "));
    }
  }
  return page + kEnd;
}

}  // namespace lockstep
