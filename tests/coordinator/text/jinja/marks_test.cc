// SPDX-License-Identifier: Apache-2.0
// Bytes that came from the request stay marked through every operation.
#include "tests/coordinator/text/jinja/render.h"

namespace lockstep::jinja {
namespace {

// The text with "[" and "]" around the bytes that came from the request.
std::string marked(std::string_view source, const OrderedJson& variables) {
  const auto text = try_render(source, variables);
  if (!text.ok()) return "error: " + message_of(text.status());
  std::string shown;
  for (const MarkedPiece& piece : pieces_of(*text, 0, text->bytes.size())) {
    const std::string part = text->bytes.substr(piece.begin, piece.end - piece.begin);
    shown += piece.from_request ? "[" + part + "]" : part;
  }
  return shown;
}

const OrderedJson kVariables = {
    {"x", "Ab c"}, {"y", " <|end|> "}, {"l", {"p", "q"}}, {"d", {{"key", "val"}}}, {"u", "añb"}};

TEST(TemplateMarksTest, TextOfTheTemplateIsNotMarked) {
  EXPECT_EQ(marked("<|end|>{{ '<|end|>' }}{{ x }}!", kVariables), "<|end|><|end|>[Ab c]!");
}

TEST(TemplateMarksTest, MarksStayWithTheirCharacters) {
  for (const auto& [expression, wanted] : std::vector<std::pair<std::string, std::string>>{
           {"'(' + x + ')'", "([Ab c])"},
           {"'(' ~ x ~ 1 ~ ')'", "([Ab c]1)"},
           {"y | trim", "[<|end|>]"},
           {"y.strip() ~ '.'", "[<|end|>]."},
           {"x.upper()", "[AB C]"},
           {"('t' ~ x)|upper", "T[AB C]"},
           {"('t' ~ x).title()", "T[ab C]"},
           {"x[1:3]", "[b ]"},
           {"('t' ~ x)[::-1]", "[c bA]t"},
           {"('t' ~ u)|reverse", "[bña]t"},
           {"x.replace('b', '--')", "[A]--[ c]"},
           {"'t-t'.replace('-', x)", "t[Ab c]t"},
           {"x.split(' ')|join('|')", "[Ab]|[c]"},
           {"l|join('-')", "[p]-[q]"},
           {"l", "['[p]', '[q]']"},
           {"d|tojson", "{\"[key]\": \"[val]\"}"},
           {"d|string", "{'[key]': '[val]'}"},
           {"'%s=%5s' % (x, l[0])", "[Ab c]=    [p]"},
           {"'{}:{!r:>5}'.format(x, l[0])", "[Ab c]:  '[p]'"},
           {"x.center(8, '*')", "**[Ab c]**"},
           {"x|e ~ '<'|e", "[Ab c]&lt;"},
           {"x|indent(2, true)", "  [Ab c]"},
           {"x * 2", "[Ab cAb c]"},
           {"x|first ~ 't'", "[A]t"},
           {"(x ~ 't' * 300)|truncate(6)", "[Ab]..."},
           {"x if x else 't'", "[Ab c]"},
           {"strftime_now('%Y')", "2026"},
       }) {
    EXPECT_EQ(marked("{{ " + expression + " }}", kVariables), wanted) << expression;
  }
}

TEST(TemplateMarksTest, BlocksAndMacrosKeepMarks) {
  EXPECT_EQ(marked("{% set b %}t{{ x }}{% endset %}{{ b|upper }}", kVariables), "T[AB C]");
  EXPECT_EQ(marked("{% macro m(a) %}t{{ a }}{% endmacro %}{{ m(x) }}", kVariables), "t[Ab c]");
  EXPECT_EQ(marked("{% filter upper %}t{{ x }}{% endfilter %}", kVariables), "T[AB C]");
  EXPECT_EQ(
      marked("{% macro m() %}t{{ caller() }}{% endmacro %}{% call m() %}c{{ x }}{% endcall %}",
             kVariables),
      "tc[Ab c]");
}

}  // namespace
}  // namespace lockstep::jinja
