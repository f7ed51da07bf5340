// SPDX-License-Identifier: Apache-2.0
// The source tree as text, for the rules of tidy_test.cc.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep::testing {

struct SourceFile {
  std::string path;  // From the top of the tree: "base/system/cpu.h".
  std::vector<std::string> lines;

  bool has_extension(std::initializer_list<std::string_view> extensions) const;
  bool is_cpp() const { return has_extension({".h", ".cc", ".cu", ".cuh", ".inc"}); }
  bool is_header() const { return has_extension({".h", ".cuh"}); }
  // What people write: no data, no prose, nothing that another file says it made.
  bool is_code() const;
  bool is_in(std::string_view folder) const;  // "worker/kernels", at any depth.
};

SourceFile make_source(std::string path, std::string_view text);

// Every text file below `top` but data: what git knows and does not ignore, or, in an unpacked
// archive, all of the folders that hold source. In order of path.
std::vector<SourceFile> read_tree(const std::string& top);

// The name within #include "..." or <...>; empty for any other line.
std::string included_name(std::string_view line);

// The line without string literals and comment: what a compiler would take for code.
std::string code_of(std::string_view line);

// Whether `word` is in the text with no letter, digit or underscore on its left, nor, where
// `whole`, on its right.
bool contains_word(std::string_view text, std::string_view word, bool whole);

}  // namespace lockstep::testing
