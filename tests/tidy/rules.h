// SPDX-License-Identifier: Apache-2.0
// The rules of CONTRIBUTING.md and ARCHITECTURE.md for a file, as functions of its text.
#pragma once

#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "tests/tidy/source.h"

namespace lockstep::testing {

struct Finding {
  size_t line = 0;  // From 1.
  std::string text;
};

struct Rule {
  const char* name;
  std::vector<Finding> (*find)(const SourceFile& file);
  // An example of a file that breaks the rule: the rule must find it.
  const char* bad_path;
  std::string bad_text;
};

// All rules; the list is made on first use.
const std::vector<Rule>& rules();

// A folder, and the other folders whose headers its files may include. A file belongs to the
// longest of these folders that its path begins with.
struct Layer {
  const char* folder;
  std::vector<std::string> may_include;
};
const std::vector<Layer>& layers();

// The nouns of each folder that has C++ files: their names up to the first dot.
std::map<std::string, std::set<std::string>> nouns_by_folder(std::span<const SourceFile> files);

}  // namespace lockstep::testing
