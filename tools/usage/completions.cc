// SPDX-License-Identifier: Apache-2.0
#include "tools/usage/completions.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_replace.h"

namespace lockstep {
namespace {

std::string joined(const std::vector<std::string>& words) {
  return fmt::format("{}", fmt::join(words, " "));
}

// In single quotes, for bash and zsh.
std::string quoted(const std::string& text) {
  return "'" + absl::StrReplaceAll(text, {{"'", "'\\''"}}) + "'";
}

std::string quoted_for_fish(const std::string& text) {
  return "'" + absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"'", "\\'"}}) + "'";
}

// The part of a description that zsh shows: brackets and colons have a meaning there.
std::string plain_for_zsh(const std::string& text) {
  return absl::StrReplaceAll(text, {{"[", "("}, {"]", ")"}, {":", "\\:"}});
}

std::vector<std::string> flags_of(const CommandUsage& command) {
  std::vector<std::string> names;
  for (const OptionUsage& flag : command.flags) {
    names.insert(names.end(), flag.names.begin(), flag.names.end());
  }
  return names;
}

bool takes_path(const CommandUsage& command) {
  return std::ranges::any_of(command.arguments, &OptionUsage::takes_path);
}

// The subcommands of a command, with the last word of their names: "serve" for "bench serve".
std::vector<std::pair<std::string, const CommandUsage*>> children(
    std::span<const CommandUsage> commands, const CommandUsage& command) {
  std::vector<std::pair<std::string, const CommandUsage*>> found;
  const std::string prefix = command.name.empty() ? "" : command.name + " ";
  for (const CommandUsage& other : commands) {
    if (other.name.empty() || !other.name.starts_with(prefix)) continue;
    std::string name = other.name.substr(prefix.size());
    if (!name.empty() && name.find(' ') == name.npos) found.emplace_back(std::move(name), &other);
  }
  return found;
}

// The words that may follow the command in place of a flag: its subcommands, and the values of its
// arguments.
std::vector<std::string> next_words(std::span<const CommandUsage> commands,
                                    const CommandUsage& command) {
  std::vector<std::string> words;
  for (auto& [name, child] : children(commands, command)) words.push_back(std::move(name));
  for (const OptionUsage& argument : command.arguments) {
    const std::vector<std::string> more = argument.words();
    words.insert(words.end(), more.begin(), more.end());
  }
  return words;
}

// The names of all subcommands, such as 'bench serve'.
std::vector<std::string> nested_names(std::span<const CommandUsage> commands) {
  std::vector<std::string> names;
  for (const CommandUsage& command : commands) {
    if (command.name.find(' ') != command.name.npos) names.push_back(quoted(command.name));
  }
  return names;
}

// The cases of a bash script. A case has one action, such as a list of words, and all flags whose
// values that action completes.
std::string bash_values(std::span<const CommandUsage> commands) {
  std::map<std::string, std::vector<std::string>> patterns;
  for (const CommandUsage& command : commands) {
    for (const OptionUsage& flag : command.flags) {
      if (flag.form.empty()) continue;
      const std::vector<std::string> words = flag.words();
      std::string action = words.empty() ? "" : fmt::format("words={}", quoted(joined(words)));
      if (flag.takes_path()) action += action.empty() ? "paths=1" : " paths=1";
      if (action.empty()) action = "return";
      for (const std::string& name : flag.names) {
        patterns[action].push_back(quoted(command.name + " " + name));
      }
    }
  }
  std::string text;
  for (const auto& [action, flags] : patterns) {
    text += fmt::format("    {}) {} ;;\n", fmt::join(flags, " | "), action);
  }
  return text;
}

std::string zsh_spec(const OptionUsage& option, const std::string& head,
                     const std::vector<std::string>& words, bool takes_path) {
  std::string action = " ";
  if (takes_path) action = "_files";
  if (!words.empty()) action = "(" + joined(words) + ")";
  if (takes_path && !words.empty()) {
    action = fmt::format("{{compadd -- {}; _files}}", joined(words));
  }
  return quoted(fmt::format("{}:{}:{}", head, plain_for_zsh(option.names[0]), action));
}

std::string zsh_arguments(std::span<const CommandUsage> commands, const CommandUsage& command) {
  std::string text;
  for (const OptionUsage& flag : command.flags) {
    const std::string help = plain_for_zsh(first_clause(flag.help));
    for (const std::string& name : flag.names) {
      const std::string head = fmt::format("{}{}{}[{}]", flag.is_repeatable ? "*" : "", name,
                                           flag.form.empty() ? "" : "=", help);
      text += fmt::format(
          " \\\n      {}",
          flag.form.empty() ? quoted(head) : zsh_spec(flag, head, flag.words(), flag.takes_path()));
    }
  }
  for (size_t i = 0; i < command.arguments.size(); ++i) {
    const OptionUsage& argument = command.arguments[i];
    const std::string head = fmt::format("{}{}", i + 1, argument.is_required ? "" : ":");
    text += fmt::format(" \\\n      {}", zsh_spec(argument, head, next_words(commands, command),
                                                  argument.takes_path()));
  }
  return text;
}

constexpr char kBash[] = R"(# bash completion for lockstep, made by `lockstep completion bash`.
_lockstep() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} flag=${{COMP_WORDS[COMP_CWORD-1]}} command= words= paths=
  COMPREPLY=()
  if [[ $word == = ]]; then
    word=
  elif [[ $flag == = ]]; then
    flag=${{COMP_WORDS[COMP_CWORD-2]}}
  elif [[ $flag == : || $word == : ]]; then
    return
  fi
  ((COMP_CWORD < 2)) || command=${{COMP_WORDS[1]}}
  if ((COMP_CWORD > 2)); then
    case "$command ${{COMP_WORDS[2]}}" in
      {nested}) command+=" ${{COMP_WORDS[2]}}" ;;
    esac
  fi
  case "$command $flag" in
{values}    *)
      case $command in
{commands}      esac ;;
  esac
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
  if [[ $paths ]]; then
    compopt -o filenames 2>/dev/null
    mapfile -t -O "${{#COMPREPLY[@]}}" COMPREPLY < <(compgen -f -- "$word")
  fi
}}
complete -F _lockstep lockstep
)";

constexpr char kZsh[] = R"(#compdef lockstep
# zsh completion for lockstep, made by `lockstep completion zsh`.
_lockstep() {{
  local command=
  local -a names
  if (( CURRENT == 2 )); then
    names=({names}
    )
    [[ $words[2] == -* ]] || {{ _describe command names; return }}
  else
    command=$words[2]
    shift words
    (( CURRENT-- ))
  fi
  if (( CURRENT > 2 )); then
    case "$command $words[2]" in
      ({nested})
        command+=" $words[2]"
        shift words
        (( CURRENT-- )) ;;
    esac
  fi
  case $command in
{commands}  esac
}}
if [[ $funcstack[1] == _lockstep ]]; then
  _lockstep "$@"
else
  compdef _lockstep lockstep
fi
)";

constexpr char kFish[] = R"(# fish completion for lockstep, made by `lockstep completion fish`.
function __lockstep_at -a path
  set -l words (commandline -opc)
  set -l command "$words[2]"
  if contains -- "$words[2] $words[3]" {nested}
    set command "$words[2] $words[3]"
  end
  test "$command" = "$path"
end
complete -c lockstep -f
)";

}  // namespace

std::string bash_completion(std::span<const CommandUsage> commands) {
  std::string cases;
  for (const CommandUsage& command : commands) {
    const std::string flags = quoted(joined(flags_of(command)));
    const std::string next = quoted(joined(next_words(commands, command)));
    const bool has_others = next != "''" || takes_path(command);
    cases += fmt::format("        {}) ", quoted(command.name));
    cases += has_others ? fmt::format("if [[ $word == -* ]]; then words={}; else words={}{}; fi",
                                      flags, next, takes_path(command) ? " paths=1" : "")
                        : fmt::format("words={}", flags);
    cases += " ;;\n";
  }
  return fmt::format(kBash, fmt::arg("nested", fmt::join(nested_names(commands), " | ")),
                     fmt::arg("values", bash_values(commands)), fmt::arg("commands", cases));
}

std::string zsh_completion(std::span<const CommandUsage> commands) {
  std::string names, cases;
  for (const CommandUsage& command : commands) {
    if (!command.name.empty() && command.name.find(' ') == command.name.npos) {
      names += fmt::format("\n      {}", quoted(command.name + ":" + first_clause(command.about)));
    }
    cases += fmt::format("    ({}) _arguments -S{} ;;\n", quoted(command.name),
                         zsh_arguments(commands, command));
  }
  return fmt::format(kZsh, fmt::arg("names", names),
                     fmt::arg("nested", fmt::join(nested_names(commands), "|")),
                     fmt::arg("commands", cases));
}

std::string fish_completion(std::span<const CommandUsage> commands) {
  std::string text = fmt::format(kFish, fmt::arg("nested", fmt::join(nested_names(commands), " ")));
  for (const CommandUsage& command : commands) {
    const std::string line =
        fmt::format("complete -c lockstep -n {}",
                    quoted_for_fish(fmt::format("__lockstep_at {}", quoted(command.name))));
    for (const auto& [name, child] : children(commands, command)) {
      text +=
          fmt::format("{} -a {} -d {}\n", line, name, quoted_for_fish(first_clause(child->about)));
    }
    for (const OptionUsage& argument : command.arguments) {
      if (argument.takes_path()) text += line + " -F\n";
      if (const auto words = argument.words(); !words.empty()) {
        text += fmt::format("{} -a {}\n", line, quoted_for_fish(joined(words)));
      }
    }
    for (const OptionUsage& flag : command.flags) {
      text += line;
      for (const std::string& name : flag.names) {
        text += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      }
      if (!flag.form.empty()) text += flag.takes_path() ? " -r -F" : " -x";
      if (const auto words = flag.words(); !words.empty()) {
        text += " -a " + quoted_for_fish(joined(words));
      }
      text += fmt::format(" -d {}\n", quoted_for_fish(first_clause(flag.help)));
    }
  }
  return text;
}

}  // namespace lockstep
