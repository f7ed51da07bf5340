// SPDX-License-Identifier: Apache-2.0
// What the text of a flag may be: a refusal says what was wanted and what was found, in one line.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

namespace lockstep {

// For CLI::Option::check(). `low` and `high` included.
CLI::Validator whole_number(int64_t low, int64_t high);
CLI::Validator real_number(double low, double high);

// For CLI::Option::transform(): "4096", "2GiB", "1.5g" -> bytes; units are powers of 1024.
CLI::Validator size_in_bytes();

// Lets every flag of a number take nothing but one that its variable can hold.
void check_numbers(CLI::App& app);

// What the parser refused, in one line that says where to read on: of `app`, to which `error`
// belongs, or of its command that was named.
std::string explain(const CLI::ParseError& error, const CLI::App& app);

}  // namespace lockstep
