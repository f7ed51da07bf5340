// SPDX-License-Identifier: Apache-2.0
// A command's flags as data, declared next to the options that they set.
// tools/commands/flag_checks.h parses a command line with them, and arguments_of() writes the
// arguments of another process.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace lockstep {

// The values that a flag takes; by default all that its variable can hold. In a list, each value
// must follow these rules.
struct FlagValues {
  double min = -std::numeric_limits<double>::infinity();  // Inclusive, as is `max`.
  double max = std::numeric_limits<double>::infinity();
  std::vector<std::string> words = {};  // The allowed texts. For a number: words that mean 0.
  // The number of the variable's units in one unit of the flag: 1000 if the flag is in s and the
  // variable in ms.
  int64_t unit = 1;
  bool is_size = false;     // A number of bytes: 512MiB.
  bool has_commas = false;  // A list in one text: 1,2,3. Other lists are repeated flags.
  // The value in --help and in completions: FILE, FOLDER, HOST:PORT|off, or words such as a|b. By
  // default `words`, and the type.
  std::string form = {};
  // Returns "" for a valid text, else what it must be.
  std::function<std::string(const std::string& text)> check = nullptr;
};

struct Flag {
  // `variable` outlives the flag. A bool is a switch without a value; a function is called with the
  // value.
  using Variable =
      std::variant<bool*, int*, int64_t*, uint64_t*, double*, std::string*, std::optional<int32_t>*,
                   std::optional<uint64_t>*, std::optional<double>*, std::vector<std::string>*,
                   std::vector<int32_t>*, std::vector<double>*, std::function<void(int32_t)>,
                   std::function<void(uint64_t)>, std::function<void(float)>>;

  std::string name;  // "--silent-ms", or "MODEL" for an argument without a name.
  Variable variable;
  std::string help = {};  // "": hidden from --help.
  FlagValues values = {};
};

// The variable's value as text that the flag accepts; "true" or "false" for a switch, "" if there
// is no value.
std::string text_of(const Flag& flag);

// The two lists in one.
std::vector<Flag> join(std::vector<Flag> first, const std::vector<Flag>& second);

// The arguments that give the values of `flags` to another process with the same flags. `defaults`
// are the same flags with their default values; values equal to these are left out.
std::vector<std::string> arguments_of(const std::vector<Flag>& flags,
                                      const std::vector<Flag>& defaults);

}  // namespace lockstep
