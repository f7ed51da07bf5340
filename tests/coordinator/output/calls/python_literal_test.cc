// SPDX-License-Identifier: Apache-2.0
#include "coordinator/output/calls/python_literal.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

std::string json_of(std::string_view text) { return json_of_python(text).value_or("none"); }

TEST(PythonLiteralTest, NumbersAreWrittenAsJsonHasThem) {
  EXPECT_EQ(json_of("3"), "3");
  EXPECT_EQ(json_of("- 3"), "-3");
  EXPECT_EQ(json_of("+.5"), "0.5");
  EXPECT_EQ(json_of("5."), "5.0");
  EXPECT_EQ(json_of("2.e3"), "2.0e3");
  EXPECT_EQ(json_of("1E-3"), "1e-3");
  EXPECT_EQ(json_of("1_000"), "1000");
  EXPECT_EQ(json_of("007"), "7");
  EXPECT_EQ(json_of("000"), "0");
  EXPECT_EQ(json_of("123456789012345678901234567890"), "123456789012345678901234567890");
  for (const char* text : {"1e999", "1.2.3", "1e", "-", ".", "3j", "0x1f", "5a"}) {
    EXPECT_EQ(json_of(text), "none") << text;
  }
}

TEST(PythonLiteralTest, StringsHavePythonsQuotesAndEscapes) {
  EXPECT_EQ(json_of("'it\"s'"), "\"it\\\"s\"");
  EXPECT_EQ(json_of("'it\\'s'"), "\"it's\"");
  EXPECT_EQ(json_of("'''a\"b'c'''"), "\"a\\\"b'c\"");
  EXPECT_EQ(json_of("\"\""), "\"\"");
  EXPECT_EQ(json_of("'\\x41\\u00e9\\U0001F6B2'"), "\"A\xc3\xa9\xf0\x9f\x9a\xb2\"");
  EXPECT_EQ(json_of("'\\ud83d\\udeb2'"), "\"\xf0\x9f\x9a\xb2\"");
  EXPECT_EQ(json_of("'\\d\\n'"), "\"\\\\d\\n\"");
  for (const char* text : {"'a", "b'a'", "f'{a}'", "'\\u12'", "'\\ud83d'"}) {
    EXPECT_EQ(json_of(text), "none") << text;
  }
}

TEST(PythonLiteralTest, ListsTuplesAndDictsBecomeListsAndObjects) {
  EXPECT_EQ(json_of("[1, (2, 3), ('a',), (4)]"), "[1, [2, 3], [\"a\"], 4]");
  EXPECT_EQ(json_of("{'a': True, \"b\": None, 3: []}"), "{\"a\": true, \"b\": null, \"3\": []}");
  EXPECT_EQ(json_of("[true, false, null, ()]"), "[true, false, null, []]");
  EXPECT_EQ(json_of("[1, 2,]"), "[1, 2]");
  for (const char* text : {"[1", "[a]", "[1 2]", "{'a'}", "{1, 2}", "f()", "Truely", "1, 2", ""}) {
    EXPECT_EQ(json_of(text), "none") << text;
  }
  EXPECT_EQ(json_of(std::string(100, '[') + std::string(100, ']')), "none");
}

TEST(PythonLiteralTest, ListsTuplesAndDictsCannotBeKeys) {
  EXPECT_EQ(json_of("{1: 2, None: 3, 'a': 4}"), "{\"1\": 2, \"null\": 3, \"a\": 4}");
  for (const char* text : {"{[]: 1}", "{ (1, 2): 1}", "{{1: 2}: 1}", "{1: 2, {}: 3}", "{"}) {
    EXPECT_EQ(json_of(text), "none") << text;
  }
  std::string text = "2";
  for (int depth = 0; depth < 20; ++depth) text = "{" + text + ": 1}";
  EXPECT_EQ(json_of(text), "none");  // The JSON would have 2 MB of escapes.
}

TEST(PythonLiteralTest, ACallHasKeywordArgumentsAlone) {
  const auto call = parse_python_call("lamp.dim(room='hall', level=3,)");
  ASSERT_TRUE(call.has_value());
  EXPECT_EQ(call->name, "lamp.dim");
  EXPECT_EQ(call->arguments, "{\"room\": \"hall\", \"level\": 3}");
  EXPECT_EQ(parse_python_call("f()")->arguments, "{}");
  for (const char* text : {"f(1)", "f(a=b)", "f(a=g())", "f(a=1) x", "1f()", "f(a=1", "f(**a)"}) {
    EXPECT_FALSE(parse_python_call(text).has_value()) << text;
  }
}

// The number of bytes until the brackets close for the first time.
size_t end_of(std::string_view text) {
  PythonSpan span;
  for (size_t i = 0; i < text.size(); ++i) {
    if (span.push(text[i]) == 0 && i > 0) return i + 1;
  }
  return 0;
}

TEST(PythonSpanTest, BracketsInStringsDoNotCount) {
  for (const char* text : {"(')')", "(\")\\\")\")", "(''')'\"''')", "('', \")\")",
                           "(\"\"\"\"a)\"\"\")", "([{'}': ']'}])", "('\\\\')", "('')"}) {
    EXPECT_EQ(end_of(text), std::string_view(text).size()) << text;
  }
}

}  // namespace
}  // namespace lockstep
