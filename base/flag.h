// SPDX-License-Identifier: Apache-2.0
// Flags of a command as data, declared beside the options that they set. The command line is read
// by them (tools/commands/flag_checks.h), and the arguments of another process are written by them.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace lockstep {

// The values that a flag takes; by default all that its variable can hold. A list has a rule for
// each of its values.
struct FlagValues {
  double min = -std::numeric_limits<double>::infinity();  // Included, as `max` is.
  double max = std::numeric_limits<double>::infinity();
  std::vector<std::string> words = {};  // All values of a text; for a number: other names of 0.
  int64_t unit = 1;         // The variable counts in smaller units: 1000 for seconds kept in ms.
  bool is_size = false;     // A number of bytes: 512MiB.
  bool has_commas = false;  // A list in one text: 1,2,3. Other lists are flags that are repeated.
  // Returns "" for a good text, else what it must be.
  std::function<std::string(const std::string& text)> check = nullptr;
};

struct Flag {
  // Outlives the flag. A bool is a switch without a value. A function is called with the value.
  using Variable =
      std::variant<bool*, int*, int64_t*, uint64_t*, double*, std::string*, std::optional<int32_t>*,
                   std::optional<uint64_t>*, std::optional<double>*, std::vector<std::string>*,
                   std::vector<int32_t>*, std::vector<double>*, std::function<void(int32_t)>,
                   std::function<void(uint64_t)>, std::function<void(float)>>;

  std::string name;  // "--silent-ms", or "MODEL", an argument without a name.
  Variable variable;
  std::string help = {};  // "": --help does not show it.
  FlagValues values = {};
};

// The variable's value as the flag takes it; "true" or "false" for a switch, "" where there is
// none.
std::string text_of(const Flag& flag);

// All flags of the two lists.
std::vector<Flag> join(std::vector<Flag> first, const std::vector<Flag>& second);

// The arguments that give the variables of another process, which has the same flags, these values.
// Values equal to those of `defaults`, the same flags of unchanged options, are left out.
std::vector<std::string> arguments_of(const std::vector<Flag>& flags,
                                      const std::vector<Flag>& defaults);

}  // namespace lockstep
