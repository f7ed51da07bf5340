// SPDX-License-Identifier: Apache-2.0
#include "tools/commands/flag_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "base/nearest.h"
#include "base/status.h"

namespace lockstep {
namespace {

using Check = std::function<std::string(std::string&)>;

template <typename T>
std::optional<T> whole(std::string_view text) {
  T value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

template <typename T>
CLI::Validator whole_number_of(T low, T high) {
  const Check check = [low, high](std::string& text) -> std::string {
    const std::optional<T> value = whole<T>(text);
    if (value.has_value() && low <= *value && *value <= high) return "";
    return fmt::format("wanted a whole number from {} to {}, found {}", low, high, printable(text));
  };
  return {check, ""};
}

// The power of 1024 that a unit stands for.
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

std::string to_bytes(std::string& text) {
  const size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
  size_t begin = digits;
  while (begin < text.size() && text[begin] == ' ') ++begin;
  const std::optional<int> power = power_of(text.substr(begin));
  double number = 0;
  constexpr double kMost = 1LL << 60;
  if (power.has_value() && absl::SimpleAtod(text.substr(0, digits), &number)) {
    number = std::ldexp(number, 10 * *power);
    if (number <= kMost) {
      text = std::to_string(static_cast<int64_t>(number));
      return "";
    }
  }
  return fmt::format("wanted a size, e.g. 512MiB or 2GiB, found {}", printable(text));
}

// A flag of other servers for something that is here, too.
struct ForeignFlag {
  std::string_view theirs;
  std::string_view ours;  // A flag, with an example of its value; or MODEL.
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

// Our name of another server's flag; "": it is none, or the command has no such flag.
std::string ours(std::string_view written, const CLI::App& command) {
  const auto known = std::ranges::find(kForeignFlags, written, &ForeignFlag::theirs);
  if (known == std::end(kForeignFlags)) return "";
  const std::string name(known->ours.substr(0, known->ours.find(' ')));
  if (command.get_option_no_throw(name) == nullptr) return "";
  return name == known->ours ? fmt::format("the argument {}", name) : std::string(known->ours);
}

// The shortest flag of the command that begins so, else the one that a few letters make of what was
// written; "": none is near.
std::string nearest_flag(std::string_view written, const CLI::App& command) {
  constexpr size_t kMinWritten = 4;  // With both dashes.
  std::string begun, best;
  if (written.size() < kMinWritten) return "";
  size_t least = std::clamp<size_t>((written.size() - 2) / 3, 1, 3) + 1;
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_lnames().empty()) continue;
    const std::string name = "--" + option->get_lnames()[0];
    if (name.starts_with(written) && (begun.empty() || name.size() < begun.size())) begun = name;
    if (const size_t letters = edit_distance(written, name); letters < least) {
      least = letters;
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

// Of CLI11's "Could not convert: --workers = 99999999999".
std::string unconverted_text(const std::string& message) {
  constexpr std::string_view kBegin = "Could not convert: ";
  const size_t equals = message.find(" = ");
  if (!message.starts_with(kBegin) || equals == message.npos) return message;
  return fmt::format("{}: wanted a value that it can hold, found {}",
                     message.substr(kBegin.size(), equals - kBegin.size()),
                     printable(message.substr(equals + 3)));
}

// " (from LOCKSTEP_WORKERS)": where the value that was refused came from, if not from the line.
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

CLI::Validator whole_number(int64_t low, int64_t high) { return whole_number_of(low, high); }

CLI::Validator real_number(double low, double high) {
  const Check check = [low, high](std::string& text) -> std::string {
    double value = 0;
    if (absl::SimpleAtod(text, &value) && low <= value && value <= high) return "";
    return fmt::format("wanted a number from {:g} to {:g}, found {}", low, high, printable(text));
  };
  return {check, ""};
}

CLI::Validator size_in_bytes() { return {Check(to_bytes), ""}; }

void check_numbers(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    const std::string type = option->get_type_name();
    if (type.starts_with("INT")) {
      option->check(whole_number_of<int64_t>(std::numeric_limits<int64_t>::min(),
                                             std::numeric_limits<int64_t>::max()));
    } else if (type.starts_with("UINT")) {
      option->check(whole_number_of<uint64_t>(0, std::numeric_limits<uint64_t>::max()));
    } else if (type.starts_with("FLOAT")) {
      option->check([](const std::string& text) -> std::string {
        double value = 0;
        return absl::SimpleAtod(text, &value) ? "" : "wanted a number, found " + printable(text);
      });
    }
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
  } else if (dynamic_cast<const CLI::ConversionError*>(&error) != nullptr) {
    message = unconverted_text(message);
  }
  message += source_of(message, *command);
  return message + " (see " + path + " --help)";
}

}  // namespace lockstep
