// SPDX-License-Identifier: Apache-2.0
// The named sets of code points in patterns, and letters that are equal regardless of case. Free
// functions, for any thread.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "coordinator/text/unicode/code_point_set.h"

namespace lockstep {

// \p{name}: categories, scripts, blocks (In_...) and binary properties. Case, blanks, "-" and "_"
// in the name are ignored. Categories, scripts and what follows from them are Unicode 16's, other
// properties Unicode 14's. Null for an unknown name.
std::optional<CodePointSet> property_set(std::string_view name);

// Gives Oniguruma the names of the scripts that it lacks. Called once, before the first pattern is
// compiled.
void define_new_scripts();

// [:name:], which differs from \p{name} only in "punct"; null for an unknown name.
std::optional<CodePointSet> posix_set(std::string_view name);

// class_word_set() is \w inside of a class. word_set() is \w outside of one; it also has six
// numbers of Latin-1 (superscripts and fractions).
const CodePointSet& class_word_set();
const CodePointSet& word_set();

// If case is ignored, the first `bytes` bytes of a text equal `text`.
struct CaseVariant {
  size_t bytes;
  std::vector<char32_t> text;
};

// The texts that the beginning of `text` equals if case is ignored: "s" equals "S" and the long s,
// "ss" the sharp s.
std::vector<CaseVariant> case_variants(std::string_view text);

// Adds the other cases of a set's members; returns the variants that have more than one character.
std::vector<std::vector<char32_t>> add_case_variants(CodePointSet* set);

}  // namespace lockstep
