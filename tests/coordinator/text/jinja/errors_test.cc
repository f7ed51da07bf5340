// SPDX-License-Identifier: Apache-2.0
// Errors are one line that names the template's line. Cases that the goldens cannot have are here
// too: the clock, and cases in which we are stricter than the reference.
#include "tests/coordinator/text/jinja/render.h"

namespace lockstep::jinja {
namespace {

TEST(TemplateErrorTest, NamesTheLineOfTheExpression) {
  EXPECT_EQ(render("a\n{% if true %}\n{{ 1 + none }}\n{% endif %}"),
            "error: line 3: unsupported operand type(s) for +: 'int' and 'NoneType'");
  EXPECT_EQ(render("{% macro m() %}\n\n{{ x.y }}{% endmacro %}\n{{ m() }}"),
            "error: line 3: 'x' is undefined");
  EXPECT_EQ(render("\n{{ 1 +\n }}"), "error: line 3: expected an expression, found '}}'");
  EXPECT_EQ(render("\n\n{% for x in y %}"),
            "error: line 3: the template ends, but 'else' is missing");
}

TEST(TemplateErrorTest, ARaisedExceptionIsItsMessageOnOneLine) {
  EXPECT_EQ(render("{{ raise_exception('no\\nsuch ' ~ x) }}", {{"x", "role"}}),
            "error: line 1: no\\x0asuch role");
}

TEST(TemplateErrorTest, NamesWhatIsUndefined) {
  const OrderedJson variables = {{"d", {{"k", nullptr}}}, {"l", {1}}};
  EXPECT_EQ(render("{{ d.q.r }}", variables), "error: line 1: 'dict object' has no attribute 'q'");
  EXPECT_EQ(render("{{ d.k.r.s }}", variables), "error: line 1: 'None' has no attribute 'r'");
  EXPECT_EQ(render("{{ l[4].x }}", variables), "error: line 1: list object has no element 4");
  EXPECT_EQ(render("{{ l.append(1) }}", variables),
            "error: line 1: access to attribute 'append' of 'list' object is unsafe.");
}

TEST(TemplateErrorTest, RefusesTagsThatUseOtherTemplates) {
  for (const char* tag : {"include 'a'", "import 'a' as b", "extends 'a'", "block a"}) {
    const std::string error = render(fmt::format("{{% {} %}}", tag));
    EXPECT_NE(error.find("is not supported: templates cannot use other templates"),
              std::string::npos)
        << error;
  }
}

TEST(TemplateErrorTest, RefusesIntegersOfMoreThan64Bits) {
  EXPECT_NE(render("{{ 9223372036854775807 + 1 }}").find("64 bits"), std::string::npos);
  EXPECT_NE(render("{{ 2 ** 64 }}").find("64 bits"), std::string::npos);
  EXPECT_NE(render("{{ 9223372036854775808 }}").find("64 bits"), std::string::npos);
  EXPECT_NE(render("{{ x + 1 }}", {{"x", 9223372036854775808u}}).find("64 bits"),
            std::string::npos);
  EXPECT_EQ(
      render("{{ -9223372036854775807 - 1 }} {{ (-9223372036854775807 - 1) // -1 }}").substr(0, 6),
      "error:");
}

TEST(TemplateErrorTest, ShowsIntegersOfJsonThatNeedAll64Bits) {
  const OrderedJson variables = {{"x", {{"maximum", UINT64_MAX}}}};
  EXPECT_EQ(render("{{ x|tojson }} {{ x.maximum }} {{ x.maximum is number }} "
                   "{{ x.maximum == x.maximum }} {{ x.maximum == 1 }} {{ 1 if x.maximum }} "
                   "{{ x.maximum|int }} {{ x.maximum|float }}",
                   variables),
            R"({"maximum": 18446744073709551615} 18446744073709551615 True True False 1 )"
            "18446744073709551615 1.8446744073709552e+19");
}

TEST(TemplateErrorTest, RefusesTextsThatAreNotUtf8) {
  EXPECT_EQ(render("a\xff"), "error: line 1: the template is not UTF-8 at byte 1");
  EXPECT_NE(render("{{ '\\ud83d' }}").find("surrogate"), std::string::npos);
}

TEST(TemplateTimeTest, ShowsTheTimeThatItIsGiven) {
  EXPECT_EQ(render("{{ strftime_now('%d %b %Y, %A %H:%M:%S%z %%') }}"),
            "04 Jul 2026, Saturday 13:05:09 %");
  EXPECT_EQ(render("[{{ strftime_now('') }}]"), "[]");
  EXPECT_NE(render("{{ strftime_now('%9999d') }}").find("too long"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::jinja
