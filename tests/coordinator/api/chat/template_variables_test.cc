// SPDX-License-Identifier: Apache-2.0
// The variables of a request that reach the template.
#include "coordinator/api/chat/template_variables.h"

#include <gtest/gtest.h>

#include "base/status.h"

namespace lockstep {
namespace {

// The variables that are passed, as JSON, or the error.
std::string passed(const std::string& json, const std::vector<std::string>& named = {},
                   const std::string& source = "{{ mood }}{{ messages }}",
                   const OrderedJson& defaults = OrderedJson::object()) {
  const auto chat_template = ChatTemplate::from_json(source);
  EXPECT_TRUE(chat_template.ok()) << chat_template.status();
  const auto variables = template_variables(json, named, *chat_template, defaults);
  if (variables.ok()) return variables->dump();
  EXPECT_EQ(variables.status().code(), absl::StatusCode::kInvalidArgument);
  return message_of(variables.status());
}

TEST(TemplateVariablesTest, ThinkingVariablesArePassedWithoutBeingNamed) {
  EXPECT_EQ(passed(""), "{}");
  EXPECT_EQ(passed(R"({"enable_thinking": false, "thinking": [1]})"),
            R"({"enable_thinking":false,"thinking":[1]})");
}

TEST(TemplateVariablesTest, OtherVariablesArePassedIfTheyAreNamed) {
  EXPECT_EQ(passed(R"({"mood": "good"})", {"mood"}), R"({"mood":"good"})");
  EXPECT_EQ(passed(R"({"mood": "good"})", {"weather"}),
            "chat.template_variables: mood is not among the variables that this server passes "
            "(enable_thinking, thinking, reasoning_effort, weather); start it with --template-vars "
            "to add it");
  EXPECT_NE(passed(R"({"messages": []})").find("messages is not among"), std::string::npos);
}

TEST(TemplateVariablesTest, AVariableThatTheTemplateNeverReadsIsIgnored) {
  EXPECT_EQ(passed(R"({"weather": "fine", "thinking": 1})"), R"({"thinking":1})");
  // An attribute, a key, a text and a comment are not variables.
  EXPECT_EQ(passed(R"({"mood": 1})", {}, "{# mood #}{{ x.mood }}{{ x['mood'] }}{{ f(mood=1) }}"),
            "{}");
  for (const char* source : {"{% if 0 %}{{ x[mood] }}{% endif %}", "{% set a = mood %}",
                             "{% macro m(a=mood) %}{% endmacro %}", "{{ x|default(mood) }}",
                             "{% for i in x if mood %}{% endfor %}"}) {
    EXPECT_NE(passed(R"({"mood": 1})", {}, source).find("--template-vars"), std::string::npos)
        << source;
  }
}

TEST(TemplateVariablesTest, TheServersDefaultsApplyToVariablesThatTheRequestDoesNotSet) {
  const OrderedJson defaults = {{"enable_thinking", false}, {"mood", "good"}};
  EXPECT_EQ(passed("", {}, "x", defaults), R"({"enable_thinking":false,"mood":"good"})");
  EXPECT_EQ(passed(R"({"enable_thinking": true})", {}, "x", defaults),
            R"({"enable_thinking":true,"mood":"good"})");
  EXPECT_EQ(passed(R"({"reasoning_effort": "low"})", {}, "x", defaults),
            R"({"reasoning_effort":"low","enable_thinking":true,"mood":"good"})");
  EXPECT_EQ(passed("", {}, "x", {{"reasoning_effort", "none"}}),
            R"({"reasoning_effort":"none","enable_thinking":false})");
}

TEST(TemplateVariablesTest, AnEffortSetsThinkingUnlessTheRequestDoes) {
  EXPECT_EQ(passed(R"({"reasoning_effort": "none"})"),
            R"({"reasoning_effort":"none","enable_thinking":false})");
  EXPECT_EQ(passed(R"({"reasoning_effort": "low"})"),
            R"({"reasoning_effort":"low","enable_thinking":true})");
  EXPECT_EQ(passed(R"({"reasoning_effort": "none", "enable_thinking": true})"),
            R"({"reasoning_effort":"none","enable_thinking":true})");
  EXPECT_EQ(passed(R"({"reasoning_effort": null})"), R"({"reasoning_effort":null})");
}

TEST(TemplateVariablesTest, AValueThatIsNotAnObjectIsRefused) {
  EXPECT_EQ(passed("[1]"), "chat.template_variables: must be a JSON object, found array");
  EXPECT_NE(passed("{").find("chat.template_variables: not valid JSON"), std::string::npos)
      << passed("{");
}

}  // namespace
}  // namespace lockstep
