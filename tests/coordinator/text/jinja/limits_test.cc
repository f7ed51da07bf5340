// SPDX-License-Identifier: Apache-2.0
// A template is an untrusted program: one that exceeds a limit ends with an error.
#include <filesystem>

#include "base/source_dir.h"
#include "base/system/clock.h"
#include "tests/coordinator/text/jinja/render.h"
#include "tests/coordinator/text/test_data.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace lockstep::jinja {
namespace {

std::string repeated(std::string_view text, int count) {
  std::string all;
  for (int i = 0; i < count; ++i) all += text;
  return all;
}

void expect_refused(std::string_view source, std::string_view why) {
  const auto text = try_render(source);
  ASSERT_FALSE(text.ok()) << source.substr(0, 200);
  const std::string error = message_of(text.status());
  EXPECT_EQ(error.substr(0, 5), "line ") << error;
  EXPECT_NE(error.find(why), std::string::npos) << source.substr(0, 200) << "\n" << error;
}

TEST(TemplateLimitsTest, TheTemplateIsAtMostOneMebibyte) {
  EXPECT_EQ(render(std::string(1 << 20, 'x')).size(), 1u << 20);
  expect_refused(std::string((1 << 20) + 1, 'x'), "the limit is 1048576");
}

TEST(TemplateLimitsTest, NumbersOfEveryTypeAreFoundQuickly) {
  OrderedJson large = OrderedJson::array();  // They do not fit into a signed number.
  for (uint64_t i = 0; i < 20'000; ++i) large.push_back((uint64_t{1} << 63) + i);
  const int64_t begin = thread_time_ns();
  EXPECT_EQ(render("{{ x|unique|list|length }}", {{"x", large}}), "20000");
  EXPECT_EQ(render("{{ (['nan'|float] * 20000)|unique|list|length }}"), "1");
  EXPECT_LT(thread_time_ns() - begin, 2'000'000'000);
}

TEST(TemplateLimitsTest, SyntaxIsAtMostOneHundredLevelsDeep) {
  EXPECT_EQ(render("{{ " + repeated("(", 90) + "1" + repeated(")", 90) + " }}"), "1");
  for (const auto& [begin, end] : {std::pair("(", ")"),
                                   {"[", "]"},
                                   {"-", ""},
                                   {"not ", ""},
                                   {"x(", ")"},
                                   {"x[", "]"},
                                   {"1 if 1 else ", ""}}) {
    expect_refused("{{ " + repeated(begin, 5000) + "1" + repeated(end, 5000) + " }}", "levels");
  }
  for (const char* link : {".a", "|e", "[0]", "()", " is odd"}) {
    expect_refused("{{ x" + repeated(link, 5000) + " }}", "");
  }
  expect_refused(repeated("{% if 1 %}", 5000), "levels");
  expect_refused(repeated("{% for x in [1] %}", 150) + repeated("{% endfor %}", 150), "levels");
  expect_refused("{% set " + repeated("(", 5000) + "x" + repeated(")", 5000) + " = 1 %}", "levels");
}

TEST(TemplateLimitsTest, LongChainsOfOperatorsAreNotDeep) {
  EXPECT_EQ(render("{{ 0" + repeated(" + 1", 5000) + " }}"), "5000");
  EXPECT_EQ(render("{{ ''" + repeated(" ~ 1", 500) + " }}").size(), 500u);
  EXPECT_EQ(render("{{ 0" + repeated(" or 0", 5000) + " }}"), "0");
  EXPECT_EQ(render("{% if 0 %}" + repeated("{% elif 0 %}", 5000) + "{% else %}x{% endif %}"), "x");
}

TEST(TemplateLimitsTest, CallsAreAtMostOneHundredDeep) {
  const std::string macro = "{% macro f(k) %}{% if k %}{{ f(k - 1) }}{% endif %}.{% endmacro %}";
  EXPECT_EQ(render(macro + "{{ f(90) }}").size(), 91u);
  expect_refused(macro + "{{ f(101) }}", "100 nested calls");
  expect_refused("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "100 nested calls");
  expect_refused("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}", "100 nested calls");
}

TEST(TemplateLimitsTest, ATemplateRunsAtMostAMillionSteps) {
  expect_refused("{% for a in range(2000) %}{% for b in range(2000) %}{% endfor %}{% endfor %}",
                 "1000000 steps");
  expect_refused(
      "{% set x = 'x' * 4000000 %}{% set d = {x: 1} %}{% for i in range(9999) %}"
      "{{ d[x] }}{{ x in d }}{{ {x: 1}|length }}{% endfor %}",
      "steps");
  expect_refused("{{ range(100000)|list * 11 }}", "1000000 steps");
  expect_refused("{{ [1] * 10000000000000 }}", "steps");
  expect_refused(
      "{% set x = 'ab' * 1000000 %}{% for i in range(1000) %}{{ x.upper()|length }}"
      "{% endfor %}",
      "steps");
  expect_refused(
      "{% set x = 'a' * 2000000 %}{% for i in range(100000) %}"
      "{% if ('a' * 1000000 ~ 'b') in x %}{% endif %}{% endfor %}",
      "steps");
  expect_refused(
      "{% set x = ['a' * 100000] * 1000 %}{% for i in range(1000) %}"
      "{% set y = x|sort %}{{ x == y }}{% endfor %}",
      "");
  expect_refused(
      "{% set x = ['a'] * 90000 %}{% for i in range(1000) %}{{ x|join|length }}"
      "{% endfor %}",
      "steps");
}

TEST(TemplateLimitsTest, RangesAreAtMost100000Long) {
  EXPECT_EQ(render("{{ range(100000)|length }}"), "100000");
  expect_refused("{{ range(100001) }}", "Range too big");
  expect_refused("{{ range(-9223372036854775807, 9223372036854775807) }}", "Range too big");
}

TEST(TemplateLimitsTest, TextsAreAtMostFourMebibytes) {
  EXPECT_EQ(render("{{ 'x' * 4194304 }}").size(), 4194304u);
  for (const char* source :
       {"{{ 'x' * 4194305 }}", "{{ 'x' * 9223372036854775807 }}",
        "{% set x = 'x' * 3000000 %}{{ x }}{{ x }}", "{% set x = 'x' * 3000000 %}{{ x + x }}",
        "{% set x = 'x' * 3000000 %}{{ x ~ x }}", "{{ ['x' * 3000000] * 2 }}",
        "{{ (['x' * 3000000] * 2)|join }}", "{{ ['x' * 3000000, 'x' * 3000000]|tojson }}",
        "{{ 'x'.center(5000000) }}", "{{ 'x'.zfill(999999999999) }}", "{{ '%5000000d' % 1 }}",
        "{{ '{:5000000}'.format(1) }}", "{{ ('x' * 3000)|replace('x', 'y' * 3000) }}",
        "{{ ('a\\n' * 3000)|indent(3000) }}", "{{ '\\t'.expandtabs(5000000) }}",
        "{% set x %}{{ 'x' * 3000000 }}{{ 'x' * 3000000 }}{% endset %}"}) {
    expect_refused(source, "4194304 bytes");
  }
  expect_refused(
      "{% set ns = namespace(x='x') %}{% for i in range(100) %}"
      "{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
      "4194304 bytes");
}

TEST(TemplateLimitsTest, MemoryIsBoundedForAllKindsOfValues) {
  const std::string text = "{% set x = 'x' * 4000000 %}";
  expect_refused(text +
                     "{% set ns = namespace(l=[]) %}{% for i in range(1000) %}"
                     "{% set ns.l = [ns.l, x ~ i] %}{% endfor %}",
                 "memory");
  expect_refused(text + "{% set y = [" + repeated("x ~ 1,", 60) + "] %}", "memory");
  expect_refused("{% macro f(k) %}{{ 'x' * 4000000 }}{{ f(k + 1)[:1] }}{% endmacro %}{{ f(0) }}",
                 "");
  expect_refused("{{ ('x' * 2000000)|list|length }}", "");
}

TEST(TemplateLimitsTest, ValuesAreAtMostOneHundredDeep) {
  expect_refused(
      "{% set ns = namespace(l=[]) %}{% for i in range(1000) %}{% set ns.l = [ns.l] %}"
      "{% endfor %}{{ ns.l }}",
      "100 deep");
  expect_refused("{% set ns = namespace() %}{% set ns.me = ns %}{{ ns }}", "too deep");
  EXPECT_EQ(render("{% set ns = namespace() %}{% set ns.me = ns %}{% set ns.l = [ns] %}{{ 1 }}"),
            "1");
  EXPECT_EQ(render("{% set ns = namespace() %}{% macro m() %}{{ ns.m }}{% endmacro %}"
                   "{% set ns.m = m %}x"),
            "x");
}

TEST(TemplateLimitsTest, LimitsCanBeLower) {
  EXPECT_EQ(render("{% for i in range(9) %}{{ i }}{% endfor %}", {}, {.steps = 20}),
            "error: line 1: the template takes more than 20 steps");
}

TEST(TemplateFuzzTest, SeedsKeepTheFuzzersPromises) {
  const auto seeds = std::filesystem::path(LOCKSTEP_SOURCE_DIR) / "tests/fuzz/seeds/template";
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(seeds)) {
    const std::string input = read_text(entry.path());
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()), input.size());
    ++count;
  }
  EXPECT_GT(count, 10);
}

}  // namespace
}  // namespace lockstep::jinja
