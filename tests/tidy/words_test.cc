// SPDX-License-Identifier: Apache-2.0
// CONTRIBUTING.md's list of words over the prose of the whole tree.
#include "tests/tidy/words.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "base/source_dir.h"

namespace lockstep::testing {
namespace {

// Files that may use a word, each with its reason; one that is no longer needed fails the test.
struct Exception {
  const char* path;
  const char* phrase;
  const char* reason;
};
constexpr Exception kExceptions[] = {
    {"coordinator/text/jinja/values/percent_format.cc", "wants", "Python's own message"},
    {"tools/commands/measuring/verify.cc", "nobody", "a prompt"},
    {"tests/coordinator/engine/in_process/engine_in_process_test.cc", "wanted", "a prompt"},
    {"demo/README.md", "tells", "the verb of fables"},
};
constexpr size_t kMaxExceptions = 20;

const std::vector<SourceFile>& tree() {
  static const std::vector<SourceFile> files = read_tree(LOCKSTEP_SOURCE_DIR);
  return files;
}

const WordList& list() {
  static const WordList words = [] {
    const auto page = std::find_if(tree().begin(), tree().end(),
                                   [](const auto& file) { return file.path == "CONTRIBUTING.md"; });
    return page == tree().end() ? WordList() : read_word_list(*page);
  }();
  return words;
}

TEST(WordsTest, TheTreeUsesPlainWordsExceptTheExceptions) {
  std::vector<bool> needed(std::size(kExceptions));
  for (const SourceFile& file : tree()) {
    for (const WordFinding& finding : find_words(file, list())) {
      const auto* exception = std::find_if(
          std::begin(kExceptions), std::end(kExceptions),
          [&](const Exception& e) { return e.path == file.path && e.phrase == finding.phrase; });
      if (exception != std::end(kExceptions)) {
        needed[static_cast<size_t>(exception - std::begin(kExceptions))] = true;
        continue;
      }
      ADD_FAILURE_AT(file.path.c_str(), static_cast<int>(finding.line))
          << '"' << finding.phrase << "\": write " << finding.instead;
    }
  }
  for (size_t i = 0; i < needed.size(); ++i) {
    EXPECT_TRUE(needed[i]) << kExceptions[i].path << " now has no \"" << kExceptions[i].phrase
                           << "\": remove its exception from " << __FILE__;
  }
  EXPECT_LE(needed.size(), kMaxExceptions);
}

TEST(WordsTest, ContributingsTableIsRead) {
  ASSERT_TRUE(list().openings.contains("of"));
  EXPECT_EQ(list().openings.at("in")[0].phrase, (Words{"in", "which"}));
  ASSERT_TRUE(list().phrases.contains("told"));
  EXPECT_EQ(list().phrases.at("told")[0].instead, "send, say, report, distinguish");
  EXPECT_GT(list().phrases.size(), 40u);
}

constexpr char kPage[] = R"(
| not | but |
| --- | --- |
| opening: Of, In which | the subject |
| zounds, a rank by a | sent |
)";

// The findings as "line phrase", one after the other.
std::string found(const char* path, const char* text) {
  std::string all;
  for (const WordFinding& finding :
       find_words(make_source(path, text), read_word_list(make_source("a.md", kPage)))) {
    all += std::to_string(finding.line) + " " + finding.phrase + "; ";
  }
  return all;
}

TEST(WordsTest, FindsWordsInComments) {
  EXPECT_EQ(found("a.h", R"(// It was zounds.
int a;  // Zounds.
)"),
            "1 zounds; 2 zounds; ");
  EXPECT_EQ(found("a.py", R"(x = 1  # It was zounds.)"), "1 zounds; ");
  EXPECT_EQ(found("a.sh", R"(# zounds)"), "1 zounds; ");
  EXPECT_EQ(found("CMakeLists.txt", R"(# a rank by a host)"), "1 a rank by a; ");
  EXPECT_EQ(found("a.proto", R"(int32 a = 1;  // There is a rank
              // by a host.)"),
            "1 a rank by a; ");
}

TEST(WordsTest, FindsWordsInMessagesAndDocstrings) {
  EXPECT_EQ(found("a.cc", R"(f("it's", '"', "It was zounds", "so"
  " and zounds");)"),
            "1 zounds; 2 zounds; ");
  EXPECT_EQ(found("a.py", "def f():\n  \"\"\"Says it.\n\n  Of what was zounds.\"\"\"\n"),
            "4 opening: of; 4 zounds; ");
}

TEST(WordsTest, FindsWordsInPages) {
  EXPECT_EQ(found("a.md", R"(# Zounds

It was
zounds.
- In which case

| zounds | x |
)"),
            "1 zounds; 4 zounds; 5 opening: in which; 7 zounds; ");
}

TEST(WordsTest, FindsOpeningsOfCommentsAndSentences) {
  EXPECT_EQ(found("a.h", R"(// Of all.
int a;  // of all
// It ends. Of all.
//
// In which it is.
// - of an item
int b;  // A row.
// Of b.
)"),
            "1 opening: of; 2 opening: of; 3 opening: of; 5 opening: in which; 6 opening: of; "
            "8 opening: of; ");
}

TEST(WordsTest, FindsNoOpeningInTheMiddleOfASentence) {
  EXPECT_EQ(found("a.h", R"(// The sum
// of all, e.g. of rows.
int a;  // The number
        // of rows
// Of which? In which one is it?
)"),
            "");
  EXPECT_EQ(found("a.md", "The sum\nof all.\n"), "");
}

TEST(WordsTest, NamesQuotesAndDataAreNoWords) {
  EXPECT_EQ(
      found("a.h", R"(// Call zounds(), `zounds` or x.zounds: "it was zounds". `Of` is a word.)"),
      "");
  EXPECT_EQ(found("a.cc", R"(f("zounds", is_zounds, zounds);)"), "");
  EXPECT_EQ(found("a.cc", "f(R\"(It was zounds)\", R\"x(\nIt was zounds\n)x\");"), "");
  EXPECT_EQ(found("a.py", "TEXT = \"\"\"It was\nzounds\"\"\"\n"), "");
  EXPECT_EQ(found("a.md", "```\nzounds\n```\n\n    zounds\n\n> zounds\n\nSee [it](zounds.md).\n"),
            "");
}

}  // namespace
}  // namespace lockstep::testing
