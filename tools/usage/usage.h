// SPDX-License-Identifier: Apache-2.0
// The commands and flags of a program, read from CLI11's structure. The manual page and the
// completions are made from them.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

struct OptionUsage {
  std::vector<std::string> names;  // "--help", "-h"; for an argument without a flag: "MODEL".
  std::string form;                // FlagValues::form; "": a switch without a value.
  std::string help;
  std::string default_text;  // "": none is shown.
  std::string variable;      // The environment variable that sets the option; "": none.
  bool is_repeatable = false;
  bool is_required = false;

  // The words of `form`: the alternatives without a capital letter.
  std::vector<std::string> words() const;
  // Whether `form` has FILE or FOLDER.
  bool takes_path() const;
};

struct CommandUsage {
  std::string name;  // "serve", "bench serve"; "" for the program itself.
  std::string about;
  std::string footer;
  std::vector<OptionUsage> arguments;  // In order; their names are MODEL and such.
  std::vector<OptionUsage> flags;
};

// The program itself first, then each command, followed by its own commands. Hidden options are
// left out.
std::vector<CommandUsage> usage_of(const CLI::App& app);

// The beginning of a text up to the end of its first clause, without a period: for lists.
std::string first_clause(std::string_view text);

}  // namespace lockstep
