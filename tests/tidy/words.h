// SPDX-License-Identifier: Apache-2.0
// The words that CONTRIBUTING.md asks not to use.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/tidy/rules.h"
#include "tests/tidy/source.h"

namespace lockstep::testing {

using Words = std::vector<std::string>;  // In small letters.

// A table of CONTRIBUTING.md: phrases on the left, what to write on the right.
struct WordList {
  struct Row {
    Words phrase;
    std::string instead;
  };
  std::map<std::string, std::vector<Row>> openings;  // By their first word.
  std::map<std::string, std::vector<Row>> phrases;
};

// Reads the rows below "| not | but |": phrases separated by commas. The phrases of a row that
// begins with "opening:" count only at the beginning of a text or a sentence.
WordList read_word_list(const SourceFile& page);

struct WordFinding {
  size_t line = 0;
  std::string phrase;
  std::string instead;
};

// A sentence that ends with a question mark may open with any word. In strings and in cells of
// tables openings are not checked, because many of these texts are labels.
std::vector<WordFinding> find_words(const SourceFile& file, const WordList& list);

}  // namespace lockstep::testing
