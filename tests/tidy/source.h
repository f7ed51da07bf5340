// SPDX-License-Identifier: Apache-2.0
// The source tree as text, for the rules of tidy_test.cc.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep::testing {

struct SourceFile {
  std::string path;  // Relative to the top of the repository: "base/system/cpu.h".
  std::vector<std::string> lines;

  bool has_extension(std::initializer_list<std::string_view> extensions) const;
  bool is_cpp() const { return has_extension({".h", ".cc", ".cu", ".cuh", ".inc"}); }
  bool is_header() const { return has_extension({".h", ".cuh"}); }
  // True for files that people write: no data, no prose, no generated files.
  bool is_code() const;
  bool is_in(std::string_view folder) const;  // "worker/kernels", at any depth.
};

SourceFile make_source(std::string path, std::string_view text);

// Every text file below `top` except data, sorted by path: the files that git knows and does not
// ignore or, in an unpacked archive, all files of the source folders.
std::vector<SourceFile> read_tree(const std::string& top);

// The name within #include "..." or <...>; empty for any other line.
std::string included_name(std::string_view line);

// The line without string literals and comment.
std::string code_of(std::string_view line);

// True if `word` is in the text with no letter, digit or underscore on its left, nor, if `whole`,
// on its right.
bool contains_word(std::string_view text, std::string_view word, bool whole);

// The text without blanks at its ends.
std::string_view trimmed(std::string_view text);

}  // namespace lockstep::testing
