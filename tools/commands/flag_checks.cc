// SPDX-License-Identifier: Apache-2.0
#include "tools/commands/flag_checks.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <optional>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "base/nearest.h"
#include "base/status.h"

namespace lockstep {
namespace {

// The power of 1024 that a unit is: 2 for "MiB".
std::optional<int> power_of(std::string unit) {
  absl::AsciiStrToLower(&unit);
  constexpr std::string_view kLetters = "kmgtp";
  if (unit.empty() || unit == "b") return 0;
  const size_t at = kLetters.find(unit[0]);
  const std::string rest = unit.substr(1);
  if (at == kLetters.npos || (!rest.empty() && rest != "b" && rest != "i" && rest != "ib")) {
    return std::nullopt;
  }
  return static_cast<int>(at) + 1;
}

std::optional<int64_t> bytes_of(std::string_view text) {
  const size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
  size_t begin = digits;
  while (begin < text.size() && text[begin] == ' ') ++begin;
  const std::optional<int> power = power_of(std::string(text.substr(begin)));
  double number = 0;
  constexpr double kMax = 1LL << 60;
  if (!power.has_value() || !absl::SimpleAtod(std::string(text.substr(0, digits)), &number))
    return {};
  number = std::ldexp(number, 10 * *power);
  return number <= kMax ? std::optional(static_cast<int64_t>(number)) : std::nullopt;
}

// "auto or a whole number from 1 to 4096"
template <typename T>
std::string wanted_text(const FlagValues& values) {
  if (values.is_size) return "a size such as 512MiB or 2GiB";
  std::vector<std::string> words = values.words;
  std::erase(words, "");
  std::string text = fmt::format("{}", fmt::join(words, " or "));
  if constexpr (std::is_arithmetic_v<T>) {
    using Limits = std::numeric_limits<T>;
    const auto shown = [](double bound) {
      return Limits::is_integer ? fmt::format("{}", bound) : fmt::format("{:g}", bound);
    };
    if (!text.empty()) text += " or ";
    text += Limits::is_integer ? "a whole number" : "a number";
    if (std::isfinite(values.max)) {
      text += fmt::format(" from {} to {}", shown(values.min), shown(values.max));
    } else if (std::isfinite(values.min)) {
      text += fmt::format(" of {} or more", shown(values.min));
    } else if (Limits::is_integer) {
      text += fmt::format(" from {} to {}", Limits::lowest(), Limits::max());
    }
  }
  return text;
}

// The number, in the variable's unit; nullopt: not a value of this flag.
template <typename T>
std::optional<T> number_of(const FlagValues& values, const std::string& text) {
  T number = 0;
  if (values.is_size) return bytes_of(text);
  if constexpr (std::is_integral_v<T>) {
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, number);
    if (error != std::errc() || stop != end) return std::nullopt;
  } else {
    double read = 0;
    if (!absl::SimpleAtod(text, &read)) return std::nullopt;
    number = static_cast<T>(read);
  }
  const auto compared = static_cast<double>(number);
  if (!(values.min <= compared && compared <= values.max)) return std::nullopt;
  return number * static_cast<T>(values.unit);
}

// Returns "" or an error about a value. Rewrites a value without an error to the form that CLI11
// reads.
template <typename T>
std::string read_value(const FlagValues& values, std::string& text) {
  const bool is_word = std::ranges::count(values.words, text) > 0;
  std::string wanted;
  if constexpr (std::is_same_v<T, std::string>) {
    if (values.check != nullptr) wanted = values.check(text);
    if (!values.words.empty() && !is_word) wanted = wanted_text<T>(values);
  } else if (is_word) {
    text = "0";
  } else {
    const auto number = number_of<T>(values, text);
    if (!number.has_value()) wanted = wanted_text<T>(values);
    if (number.has_value() && (values.is_size || values.unit != 1)) {
      text = fmt::format("{}", *number);
    }
  }
  return wanted.empty() ? "" : fmt::format("must be {}, found {}", wanted, printable(text));
}

template <typename T>
CLI::Validator reader(const FlagValues& values, bool may_be_empty = false) {
  const std::function<std::string(std::string&)> read = [=](std::string& text) {
    return may_be_empty && text.empty() ? "" : read_value<T>(values, text);
  };
  return {read, ""};
}

// The value in --help. `type`: CLI11's name of the variable's type.
std::string form_of(const FlagValues& values, const std::string& type, bool is_text) {
  if (!values.form.empty()) return values.form;
  std::vector<std::string> parts = values.words;
  std::erase(parts, "");
  if (!is_text || parts.empty()) parts.push_back(values.is_size ? "SIZE" : type);
  return fmt::format("{}", fmt::join(parts, "|"));
}

// The type of a variable's values.
template <typename T>
T value_in(const T*);
template <typename T>
T value_in(const std::vector<T>*);
template <typename T>
T value_in(const std::optional<T>*);

template <typename T>
CLI::Option* add_flag(CLI::App& app, const Flag& flag, T* variable) {
  using Value = decltype(value_in(variable));
  CLI::Option* option = app.add_option(flag.name, *variable, flag.help);
  option->type_name(
      form_of(flag.values, option->get_type_name(), std::is_same_v<Value, std::string>));
  const bool is_list = option->get_expected_max() > 1;
  if (is_list) option->allow_extra_args(false);
  if (flag.values.has_commas) option->delimiter(',');
  // For an optional without bounds, an empty text means no value.
  const bool is_optional = !std::is_same_v<T, Value> && !is_list;
  option->transform(reader<Value>(flag.values, is_optional && !std::isfinite(flag.values.min)));
  const std::string shown = text_of(flag);
  if (shown != "0" && flag.help.find("default:") == flag.help.npos) option->default_str(shown);
  return option;
}

CLI::Option* add_flag(CLI::App& app, const Flag& flag, bool* variable) {
  return app.add_flag(flag.name, *variable, flag.help);
}

template <typename T>
CLI::Option* add_flag(CLI::App& app, const Flag& flag, const std::function<void(T)>& set) {
  const std::function<void(const T&)> call = set;
  return app.add_option_function(flag.name, call, flag.help)->transform(reader<T>(flag.values));
}

// Another server's flag, and ours for the same thing.
struct ForeignFlag {
  std::string_view theirs;
  std::string_view ours;  // A flag with an example of its value, or MODEL.
};
constexpr ForeignFlag kForeignFlags[] = {
    {"--host", "--http HOST:PORT"},
    {"--port", "--http HOST:PORT"},
    {"--model", "MODEL"},
    {"-m", "MODEL"},
    {"--tensor-parallel-size", "--workers N"},
    {"--tp-size", "--workers N"},
    {"--tp", "--workers N"},
    {"-tp", "--workers N"},
    {"--max-model-len", "--max-context N"},
    {"--context-length", "--max-context N"},
    {"--ctx-size", "--max-context N"},
    {"-c", "--max-context N"},
    {"--n-gpu-layers", "--device cuda"},
    {"-ngl", "--device cuda"},
    {"--gpu-memory-utilization", "--memory-fraction F"},
    {"--mem-fraction-static", "--memory-fraction F"},
    {"--max-num-seqs", "--max-running N"},
    {"--tool-call-parser", "--tool-parser NAME"},
    {"--enable-auto-tool-choice", "--tool-parser NAME"},
    {"--api-key", "--api-keys FILE"},
    {"--n-predict", "--max-tokens N"},
    {"-n", "--max-tokens N"},
    {"-t", "--threads N"},
    {"-p", "--prompt TEXT"},
};

// Our name of another server's flag; "": not known, or the command has no such flag.
std::string ours(std::string_view written, const CLI::App& command) {
  const auto known = std::ranges::find(kForeignFlags, written, &ForeignFlag::theirs);
  if (known == std::end(kForeignFlags)) return "";
  const std::string name(known->ours.substr(0, known->ours.find(' ')));
  if (command.get_option_no_throw(name) == nullptr) return "";
  return name == known->ours ? fmt::format("the argument {}", name) : std::string(known->ours);
}

// The shortest flag of the command that begins with `written`, else the flag with the smallest edit
// distance; "": none is near.
std::string nearest_flag(std::string_view written, const CLI::App& command) {
  constexpr size_t kMinWritten = 4;  // With both dashes.
  std::string begun, best;
  if (written.size() < kMinWritten) return "";
  size_t min = std::clamp<size_t>((written.size() - 2) / 3, 1, 3) + 1;
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_lnames().empty()) continue;
    const std::string name = "--" + option->get_lnames()[0];
    if (name.starts_with(written) && (begun.empty() || name.size() < begun.size())) begun = name;
    if (const size_t letters = edit_distance(written, name); letters < min) {
      min = letters;
      best = name;
    }
  }
  return begun.empty() ? best : begun;
}

std::string unknown_text(const std::string& written, const CLI::App& command) {
  if (!written.starts_with("-")) return "did not expect " + printable(written);
  const std::string flag = written.substr(0, written.find('='));
  const std::string here = ours(flag, command), near = nearest_flag(flag, command);
  return fmt::format("there is no flag {}{}", printable(flag),
                     !here.empty()   ? "; here it is " + here
                     : !near.empty() ? "; did you mean " + near + "?"
                                     : "");
}

// " (from LOCKSTEP_WORKERS)", if the refused value is from the environment.
std::string source_of(const std::string& message, const CLI::App& command) {
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_envname().empty() || option->get_lnames().empty()) continue;
    const std::string name = "--" + option->get_lnames()[0];
    if (!message.starts_with(name + ":")) continue;
    const char* value = std::getenv(option->get_envname().c_str());
    if (value != nullptr && *value != '\0' && message.ends_with(printable(value))) {
      return " (from " + option->get_envname() + ")";
    }
  }
  return "";
}

}  // namespace

void add_flags(CLI::App& app, const std::vector<Flag>& flags) {
  for (const Flag& flag : flags) {
    CLI::Option* option =
        std::visit([&](auto variable) { return add_flag(app, flag, variable); }, flag.variable);
    if (flag.help.empty()) option->group("");
  }
}

std::string explain(const CLI::ParseError& error, const CLI::App& app) {
  const CLI::App* command = &app;
  std::string path = "lockstep";
  while (!command->get_subcommands().empty()) {
    command = command->get_subcommands().front();
    path += " " + command->get_name();
  }
  const std::vector<std::string> unknown = command->remaining();
  std::string message = error.what();
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr && !unknown.empty()) {
    message = unknown_text(unknown.front(), *command);
  }
  message += source_of(message, *command);
  return message + " (see " + path + " --help)";
}

}  // namespace lockstep
