// SPDX-License-Identifier: Apache-2.0
// The prose of a source file: its comments, messages and paragraphs.
#pragma once

#include <string>
#include <vector>

#include "tests/tidy/source.h"

namespace lockstep::testing {

// One block of comment lines, one string literal with those that follow it directly, or one
// paragraph. Quotes and `code` are masked: they are data.
struct Text {
  enum class Kind { kComment, kString, kParagraph, kCell };
  Kind kind = Kind::kComment;
  size_t line = 0;    // The first line's number, from 1.
  std::string words;  // Its lines, separated by '\n'.
};

// Reads comments of C++, CUDA, proto, Python, shell, CMake and YAML; string literals of C++ except
// raw ones, which are data; and Markdown without fenced or indented code and quotes.
std::vector<Text> texts_of(const SourceFile& file);

}  // namespace lockstep::testing
