// SPDX-License-Identifier: Apache-2.0
// Compares matches with those of Hugging Face tokenizers (tools/testdata/make_patterns.py), with
// and without the matcher's memory, and counts the matcher's steps.
#include "coordinator/text/regex/regex.h"

#include <gmock/gmock.h>
#include <regex.h>

#include "coordinator/text/regex/regex_matcher.h"
#include "coordinator/text/regex/regex_syntax.h"
#include "coordinator/text/unicode/unicode.h"
#include "coordinator/text/unicode/unicode_properties.h"
#include "gtest/gtest.h"
#include "tests/coordinator/text/test_data.h"

namespace lockstep {
namespace {

using nlohmann::json;

json read_patterns(const std::string& name) {
  json cases = read_json(std::filesystem::path(LOCKSTEP_SOURCE_DIR) / "tests" / "data" /
                         "patterns" / (name + ".json"));
  EXPECT_TRUE(cases.is_array() && !cases.empty()) << name;
  return cases;
}

// The ends, in characters, of the parts that a text is cut into; negative if a part is not a match.
std::vector<int64_t> cuts_of(const std::vector<Span>& spans, std::string_view text) {
  std::vector<int64_t> cuts;
  size_t byte = 0;
  int64_t character = 0;
  for (const Span& span : spans) {
    if (span.begin == span.end) continue;
    for (; byte < span.end; ++character) byte += code_point_at(text, byte).bytes;
    cuts.push_back(span.is_match ? character : -character);
  }
  return cuts;
}

// The pattern's program, if it has one.
std::optional<RegexProgram> program_of(const std::string& pattern) {
  auto tree = parse_regex(pattern);
  if (!tree.ok()) return std::nullopt;
  auto program = RegexProgram::compile(*tree);
  if (!program.ok()) return std::nullopt;
  return *std::move(program);
}

using Matches = std::vector<std::pair<size_t, size_t>>;

Matches all_matches(RegexMatcher* matcher) {
  Matches matches;
  std::pair<size_t, size_t> match;
  for (size_t from = 0; from <= matcher->size() && matcher->search(from, &match);) {
    matches.push_back(match);
    from = match.second > match.first ? match.second : match.second + 1;
  }
  return matches;
}

class PatternFileTest : public testing::TestWithParam<const char*> {};

TEST_P(PatternFileTest, CutsAsTheReferenceDoes) {
  for (const json& row : read_patterns(GetParam())) {
    const std::string pattern = row[0];
    SCOPED_TRACE(pattern);
    const auto regex = Regex::compile(pattern);
    if (row.size() == 1) {
      EXPECT_FALSE(regex.ok());
      continue;
    }
    ASSERT_TRUE(regex.ok()) << regex.status();
    for (size_t i = 1; i < row.size(); ++i) {
      const std::string text = row[i][0];
      const auto spans = regex->find_all(text);
      ASSERT_TRUE(spans.ok()) << spans.status();
      EXPECT_EQ(cuts_of(*spans, text), row[i][1].get<std::vector<int64_t>>()) << text;
    }
  }
}

// One matcher remembers failures from its first step on; the other one only backtracks.
TEST_P(PatternFileTest, AMatcherThatRemembersFailuresFindsTheSameMatches) {
  for (const json& row : read_patterns(GetParam())) {
    const auto program = program_of(row[0]);
    if (!program.has_value()) continue;
    for (size_t i = 1; i < row.size(); ++i) {
      const std::string text = row[i][0];
      RegexMatcher remembers(*program, text, 0), goes_back(*program, text, 100'000);
      ASSERT_EQ(all_matches(&remembers), all_matches(&goes_back)) << row[0] << "\n" << text;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, PatternFileTest, testing::Values("published", "dialect", "random"),
                         [](const auto& test) { return std::string(test.param); });

// Quadratic work would take thousands of steps per character.
void expect_linear_work(const std::string& pattern) {
  constexpr size_t kCharacters = 5'000, kMaxSteps = 150;
  const auto program = program_of(pattern);
  ASSERT_TRUE(program.has_value()) << pattern;
  for (const std::string unit :
       {"A", "a",  "1",  " ",   "\n",       "\n ", "'", "\xE6\xBC\xA2", "e\xCC\x81",  "aB", "1,",
        ".", "./", "\r", "\t ", "1234567 ", "'s",  "_", "ab",           "<sentinel:1"}) {
    std::string text;
    while (text.size() < kCharacters) text += unit;
    for (const std::string tail : {"", "a", "1", " ", "!"}) {
      RegexMatcher matcher(*program, text + tail);
      all_matches(&matcher);
      EXPECT_LT(matcher.steps(), kMaxSteps * (matcher.size() + RegexMatcher::kFreeSteps))
          << pattern << " over " << json(unit) << " and " << json(tail);
    }
  }
}

TEST(RegexWorkTest, IsLinearForEveryPublishedPattern) {
  for (const json& row : read_patterns("published")) expect_linear_work(row[0]);
}

TEST(RegexWorkTest, IsLinearForPatternsThatBacktrackExponentiallyInPerl) {
  for (const char* pattern :
       {"(a+)+$", "(?:a|a)*b", "(?:a*)*b", "(?>a+)b", "(?=(a+)*$)a", "(?<!a*b)a", R"(\s+$)",
        "(?:a|ab|b)*?c", "a*?a*?a*?b", "(?>(?:a|b)+)c", R"((?=.*\d).)", R"((?<=.*)x)", "a++b",
        "(?:(?=a*b)a)*c", "(?>(?:a(?>a|b)*)*)c", R"(\s+(?=\s++x))"}) {
    expect_linear_work(pattern);
  }
}

TEST(RegexTest, AMillionCapitalsAreOneMatch) {
  const json published = read_patterns("published");
  const auto regex = Regex::compile(published[6][0].get<std::string>());  // The pattern of o200k.
  ASSERT_TRUE(regex.ok()) << regex.status();
  const auto spans = regex->find_all(std::string(1'000'000, 'A'));
  ASSERT_TRUE(spans.ok()) << spans.status();
  EXPECT_EQ(spans->size(), 1u);
}

// Patterns with back references run in Oniguruma, which gives up on a text after a bounded time.
TEST(RegexTest, ASearchThatTakesTooLongFailsAndThePatternStaysUsable) {
  const auto regex = Regex::compile(R"((a*)*\1$)");
  ASSERT_TRUE(regex.ok()) << regex.status();
  EXPECT_FALSE(regex->is_linear());
  const auto spans = regex->find_all(std::string(5000, 'a') + "b");
  ASSERT_FALSE(spans.ok());
  EXPECT_EQ(spans.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(regex->find_all("aab").ok());
}

TEST(RegexTest, PatternsOfPublishedTokenizersAreLinear) {
  for (const json& row : read_patterns("published")) {
    const auto regex = Regex::compile(row[0].get<std::string>());
    ASSERT_TRUE(regex.ok()) << regex.status();
    EXPECT_TRUE(regex->is_linear()) << row[0];
  }
}

// A few bytes unfold to thousands of nodes: such patterns run in Oniguruma, and none takes long.
TEST(RegexTest, APatternThatWouldUnfoldToManyNodesIsNotUnfolded) {
  for (const char* pattern : {"(?:(?:(?:){1000}){1000}){1000}", "(?:(?:a{300}){300}b)*c",
                              "(?:(?:(?:(?:a?)*)*)*)*b", "(?i)ssssssssssssssssssssssssssssss"}) {
    const auto regex = Regex::compile(pattern);
    ASSERT_TRUE(regex.ok()) << regex.status();
    EXPECT_TRUE(regex->find_all("ab").ok()) << pattern;
  }
  EXPECT_FALSE(Regex::compile(std::string(kMaxPatternBytes + 1, 'a')).ok());
}

TEST(RegexTest, KnowsTheClassesOfTheReference) {
  const auto matches = [](const std::string& pattern, const std::string& text) {
    const auto regex = Regex::compile(pattern);
    EXPECT_TRUE(regex.ok()) << regex.status();
    const auto spans = regex->find_all(text);
    return spans->size() == 1 && spans->front().is_match;
  };
  EXPECT_TRUE(matches(R"(\p{L})", "\xF0\x91\x8E\x80"));  // U+11380, of Unicode 16.
  EXPECT_TRUE(matches(R"([^\P{L}])", "\xF0\x91\x8E\x80"));
  EXPECT_FALSE(matches(R"(\s)", "\xE1\xA0\x8E"));  // U+180E, a blank until Unicode 6.2.
  EXPECT_TRUE(matches(R"(\S)", "\xE1\xA0\x8E"));
  EXPECT_FALSE(matches(R"(\p{Han})", "\xE3\x80\x81"));  // The ideographic comma.
  EXPECT_TRUE(matches(R"(\w)", "\xCC\x81"));
  EXPECT_FALSE(matches(R"(^b)", "ab"));
  EXPECT_TRUE(matches(R"((?i:s))", "\xC5\xBF"));
}

// [^\S] is \s.
TEST(RegexTest, ANegationInsideAClassHasTheCodePointsOfItsSet) {
  std::string all;
  std::vector<char32_t> points;
  for (char32_t c = 1; c < 0x110000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    append_utf8(c, &all);
    points.push_back(c);
  }
  const auto expect = [&](const std::string& pattern, auto is_member) {
    SCOPED_TRACE(pattern);
    const auto regex = Regex::compile(pattern);
    ASSERT_TRUE(regex.ok()) << regex.status();
    const auto spans = regex->find_all(all);
    ASSERT_TRUE(spans.ok()) << spans.status();
    size_t offset = 0, point = 0;
    for (const Span& span : *spans) {
      for (; offset < span.end; offset += code_point_at(all, offset).bytes) {
        ASSERT_EQ(span.is_match, is_member(points[point])) << static_cast<uint32_t>(points[point]);
        ++point;
      }
    }
    EXPECT_EQ(point, points.size());
  };
  expect(R"([^\S])", is_space);
  expect(R"([^\W])", is_pattern_word);
  expect(R"([^\D])", [](char32_t c) { return category_of(c) == Category::kNd; });
  for (const char* name : {"L", "Lu", "N", "Zs", "P"}) {
    expect(fmt::format(R"([^\P{{{}}}])", name),
           [&](char32_t c) { return is_in(category_of(c), name); });
  }
}

// Each negation is a set of hundreds of ranges.
TEST(RegexTest, APatternOfNothingButNegationsCompiles) {
  std::string pattern = "[";
  while (pattern.size() + 3 < kMaxPatternBytes) pattern += R"(\W)";
  EXPECT_TRUE(Regex::compile(pattern + "]").ok());
}

TEST(RegexTest, LongRunsNeedNoRecursion) {
  const auto regex = Regex::compile(R"((?:a|b)+|\s+(?!\S)|\s+)");
  ASSERT_TRUE(regex.ok()) << regex.status();
  const auto spans = regex->find_all(std::string(200'000, ' ') + "x");
  ASSERT_TRUE(spans.ok()) << spans.status();
  EXPECT_EQ(spans->size(), 3u);
}

TEST(CodePointSetTest, AddsComplementsAndIntersects) {
  CodePointSet set = {{'f', 'h'}, {'a', 'c'}};
  set.add({'d', 'e'});
  EXPECT_EQ(set, (CodePointSet{{'a', 'h'}}));
  set.add({'x', 'z'});
  EXPECT_EQ(set.complement(), (CodePointSet{{0, '`'}, {'i', 'w'}, {'{', kLastCodePoint}}));
  EXPECT_EQ(set.complement().complement(), set);
  EXPECT_EQ(set.intersection({{'g', 'y'}}), (CodePointSet{{'g', 'h'}, {'x', 'y'}}));
  EXPECT_EQ(CodePointSet::all().complement(), CodePointSet());
  EXPECT_TRUE(set.contains('x') && !set.contains('i') && !set.contains(0));
}

TEST(UnicodePropertyTest, CaseAndPunctuationOfANameAreIgnored) {
  EXPECT_EQ(property_set("Lu"), property_set(" uppercase-LETTER"));
  EXPECT_EQ(property_set("Han"), property_set("hani"));
  EXPECT_EQ(property_set("Foo"), std::nullopt);
  EXPECT_TRUE(property_set("Kawi")->contains(0x11F00));
  EXPECT_TRUE(property_set("Han")->contains(0x31350));
}

// Oniguruma exports functions of the C library's names. Its dialect accepts (?i), the C library's
// does not.
TEST(OnigurumaTest, RegcompIsStillTheCLibrarysFunction) {
  regex_t pattern;
  EXPECT_EQ(regcomp(&pattern, "(?i)a", REG_EXTENDED), REG_BADRPT);
  ASSERT_EQ(regcomp(&pattern, "a+", REG_EXTENDED), 0);
  EXPECT_EQ(regexec(&pattern, "baa", 0, nullptr, 0), 0);
  regfree(&pattern);
}

}  // namespace
}  // namespace lockstep
