// SPDX-License-Identifier: Apache-2.0
// The sets of code points that patterns name, and the letters that are one regardless of case. Free
// functions, for any thread.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "coordinator/text/unicode/code_point_set.h"

namespace lockstep {

// \p{name}: categories, scripts, blocks (In_...) and binary properties, in any case, with or
// without blanks, "-" and "_". Categories, scripts and what follows from them are those of Unicode
// 16, other properties those of Unicode 14. Null for no such name.
std::optional<CodePointSet> property_set(std::string_view name);

// Adds to Oniguruma's names the scripts that it does not know yet. Once, before it reads a pattern.
void define_new_scripts();

// [:name:], which differs from \p{name} in "punct"; null for no such name.
std::optional<CodePointSet> posix_set(std::string_view name);

// \w inside of a class, and outside, where six numbers of Latin-1 are words, too.
const CodePointSet& class_word_set();
const CodePointSet& word_set();

// A text of `bytes` bytes that equals another text but for case.
struct CaseVariant {
  size_t bytes;
  std::vector<char32_t> text;
};

// The texts that the beginning of `text` equals but for case: "s" is "S" and the long s, "ss" the
// sharp s.
std::vector<CaseVariant> case_variants(std::string_view text);

// Adds to a set what its members are in other cases; returns the variants that take more than one
// character.
std::vector<std::vector<char32_t>> add_case_variants(CodePointSet* set);

}  // namespace lockstep
