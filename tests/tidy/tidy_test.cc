// SPDX-License-Identifier: Apache-2.0
// The written style as a test: every rule of rules.cc over every file of the repository.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "base/source_dir.h"
#include "tests/tidy/rules.h"

namespace lockstep::testing {

// GoogleTest calls this to print a Rule; it must be in the namespace of Rule.
static void PrintTo(const Rule& rule, std::ostream* stream) { *stream << rule.name; }

namespace {

// Files that may break a rule, each with its reason. The list may only shrink: an exception that is
// no longer needed fails the test.
struct Exception {
  const char* rule;
  const char* path;
  const char* reason;
};
constexpr Exception kExceptions[] = {
    {"FileIsShort", "worker/kernels/kernel.h", "the kernels' whole interface, one struct each"},
    {"FileIsShort", "worker/kernels/cpu/linear/linear.h",
     "one loop that all kinds of weights share"},
    {"IsaFilesIncludeLittle", "worker/kernels/cpu/rows/top_candidates.cc",
     "base/numbers/math.h declares plain functions only: nothing inline to compile for an ISA"},
};

constexpr size_t kNouns = 12;
// Folders that may have more nouns, because all their files are of one kind. CONTRIBUTING.md names
// them.
constexpr const char* kMatrices[] = {"models/families", "tests/fuzz", "tests/worker/kernels"};

const std::vector<SourceFile>& tree() {
  static const std::vector<SourceFile> files = read_tree(LOCKSTEP_SOURCE_DIR);
  return files;
}

bool is_exception(const Rule& rule, const std::string& path) {
  return std::any_of(std::begin(kExceptions), std::end(kExceptions), [&](const Exception& e) {
    return e.rule == std::string_view(rule.name) && e.path == path;
  });
}

class TidyTest : public ::testing::TestWithParam<Rule> {};

TEST_P(TidyTest, HoldsInEveryFileExceptTheExceptions) {
  for (const SourceFile& file : tree()) {
    const std::vector<Finding> findings = GetParam().find(file);
    if (is_exception(GetParam(), file.path)) {
      EXPECT_FALSE(findings.empty())
          << file.path << " now follows the rule: remove its exception from " << __FILE__;
      continue;
    }
    for (const Finding& finding : findings) {
      ADD_FAILURE_AT(file.path.c_str(), static_cast<int>(finding.line)) << finding.text;
    }
  }
}

TEST_P(TidyTest, SeesItsBadExample) {
  EXPECT_FALSE(GetParam().find(make_source(GetParam().bad_path, GetParam().bad_text)).empty());
}

INSTANTIATE_TEST_SUITE_P(Rules, TidyTest, ::testing::ValuesIn(rules()),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(TidyTreeTest, ExceptionsNameExistingRulesAndFiles) {
  std::set<std::string> known;
  for (const Rule& rule : rules()) known.insert(rule.name);
  for (const SourceFile& file : tree()) known.insert(file.path);
  for (const Exception& exception : kExceptions) {
    EXPECT_TRUE(known.contains(exception.rule)) << exception.rule;
    EXPECT_TRUE(known.contains(exception.path)) << exception.path;
    EXPECT_GT(std::string_view(exception.reason).size(), 10u);
  }
}

TEST(TidyTreeTest, FoldersHaveFewNounsUnlessTheirFilesAreOfOneKind) {
  for (const auto& [folder, nouns] : nouns_by_folder(tree())) {
    if (std::count(std::begin(kMatrices), std::end(kMatrices), folder) > 0) {
      EXPECT_GT(nouns.size(), kNouns) << folder << " is small now: remove it from kMatrices";
    } else {
      EXPECT_LE(nouns.size(), kNouns) << folder << ": move some files to a folder of their own";
    }
  }
}

TEST(TidyTreeTest, ANounIsAllFilesOfOneNameInOneFolder) {
  const std::vector<SourceFile> files = {{.path = "a/b.h", .lines = {}},
                                         {.path = "a/b.cc", .lines = {}},
                                         {.path = "a/c.inc", .lines = {}},
                                         {.path = "a/d/b.h", .lines = {}},
                                         {.path = "a/e.py", .lines = {}}};
  const std::map<std::string, std::set<std::string>> nouns = {{"a", {"b", "c"}}, {"a/d", {"b"}}};
  EXPECT_EQ(nouns_by_folder(files), nouns);
}

TEST(TidyTreeTest, LayersHaveNoCyclicIncludes) {
  std::set<std::string> known;
  std::vector<Layer> left = layers();
  for (bool progress = true; progress && !left.empty();) {
    progress = false;
    for (auto layer = left.begin(); layer != left.end(); ++layer) {
      const bool ready = std::all_of(layer->may_include.begin(), layer->may_include.end(),
                                     [&](const std::string& name) { return known.contains(name); });
      if (!ready) continue;
      known.insert(layer->folder);
      left.erase(layer);
      progress = true;
      break;
    }
  }
  for (const Layer& layer : left) ADD_FAILURE() << layer.folder << ": its includes form a circle";
}

TEST(TidyTreeTest, TheWholeTreeIsRead) {
  std::set<std::string> paths;
  for (const SourceFile& file : tree()) paths.insert(file.path);
  for (const char* path :
       {"CMakeLists.txt", "ARCHITECTURE.md", "operators/op.h", "proto/program.proto",
        "worker/kernels/cpu/vector/vec.h", "tests/tidy/rules.cc", "tools/test.sh"}) {
    EXPECT_TRUE(paths.contains(path)) << path;
  }
  EXPECT_GT(paths.size(), 200u);
}

// All texts between two backticks in `text`: a page's line, or all its lines as one.
std::vector<std::string> code_spans(const std::string& text) {
  std::vector<std::string> spans;
  for (size_t at = text.find('`'); at != text.npos; at = text.find('`', at + 1)) {
    const size_t begin = at + 1;
    at = std::min(text.find('`', begin), text.size() - 1);
    spans.push_back(text.substr(begin, at - begin));
  }
  return spans;
}

// Rows of docs/security.md name the tests that prove them.
TEST(TidyTreeTest, TestsNamedByTheSecurityPageExist) {
  std::string page, tests;  // All lines of the page, and of the tests, joined by blanks.
  for (const SourceFile& file : tree()) {
    const bool is_page = file.path == "docs/security.md";
    if (!is_page && !(file.is_in("tests") && file.is_cpp())) continue;
    for (const std::string& line : file.lines) {
      const size_t begin = std::min(line.find_first_not_of(' '), line.size());
      (is_page ? page : tests) += line.substr(begin) + " ";
    }
  }
  int named = 0;
  for (const std::string& name : code_spans(page)) {
    const size_t dot = name.find('.');
    const std::string suite = name.substr(0, dot);
    if (!suite.ends_with("Test")) continue;
    ++named;
    const std::string test = dot == name.npos ? "" : " " + name.substr(dot + 1) + ")";
    EXPECT_NE(tests.find("(" + suite + "," + test), std::string::npos) << name;
  }
  EXPECT_GT(named, 30);
}

// Paths that pages name as examples, or in another program's tree.
constexpr const char* kOtherPaths[] = {"tools/rpc/README.md", "worker/kernels/cpu/rows/softcap.cc",
                                       "worker/kernels/cuda/rows/softcap.cu"};

TEST(TidyTreeTest, FilesNamedByPagesExist) {
  std::set<std::string> folders, other(std::begin(kOtherPaths), std::end(kOtherPaths));
  for (const SourceFile& file : tree()) folders.insert(file.path.substr(0, file.path.find('/')));
  int named = 0;
  for (const SourceFile& file : tree()) {
    if (!file.has_extension({".md"})) continue;
    for (size_t i = 0; i < file.lines.size(); ++i) {
      for (const std::string& span : code_spans(file.lines[i])) {
        const size_t slash = span.find('/'), name = span.rfind('/');
        const bool in_tree = slash != span.npos && folders.contains(span.substr(0, slash));
        const bool is_pattern =
            span.find_first_of(" *{<$,") != span.npos || span.find("NAME") != span.npos;
        if (!in_tree || is_pattern || span.find('.', name) == span.npos) continue;
        ++named;
        if (other.erase(span) > 0) continue;
        if (std::filesystem::exists(std::filesystem::path(LOCKSTEP_SOURCE_DIR) / span)) continue;
        ADD_FAILURE_AT(file.path.c_str(), static_cast<int>(i + 1)) << span << " does not exist";
      }
    }
  }
  EXPECT_GT(named, 100);
  for (const std::string& path : other) ADD_FAILURE() << path << ": remove it from kOtherPaths";
}

TEST(TidyTreeTest, CodeExcludesStringsAndComments) {
  EXPECT_EQ(code_of(R"(call("a // \" b", '"', c);  // "d")"), R"(call("", '', c);  )");
  EXPECT_EQ(included_name("#include \"operators/op.h\"  // Why."), "operators/op.h");
  EXPECT_TRUE(contains_word("std::sprintf(x)", "sprintf(", false));
  EXPECT_FALSE(contains_word("std::snprintf(x)", "sprintf(", false));
  EXPECT_FALSE(contains_word("franks", "rank", true));
}

}  // namespace
}  // namespace lockstep::testing
