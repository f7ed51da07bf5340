// SPDX-License-Identifier: Apache-2.0
// Compares renderings with those of Python's Jinja in the reference's environment: our own cases
// (tools/testdata/make_templates.py), and published templates if their files are present.
#include <filesystem>

#include "base/source_dir.h"
#include "tests/coordinator/text/jinja/render.h"
#include "tests/coordinator/text/test_data.h"

namespace lockstep::jinja {
namespace {

OrderedJson read_cases(const std::filesystem::path& path) {
  const auto json = parse_ordered_json(read_text(path), path.string());
  EXPECT_TRUE(json.ok()) << json.status();
  return json.ok() ? *json : OrderedJson();
}

class TemplateGoldenTest : public ::testing::TestWithParam<const char*> {};

TEST_P(TemplateGoldenTest, RendersWhatTheReferenceRenders) {
  const auto folder = std::filesystem::path(LOCKSTEP_SOURCE_DIR) / "tests" / "data" / "templates";
  const OrderedJson file = read_cases(folder / (std::string(GetParam()) + ".json"));
  ASSERT_GT(file["cases"].size(), 30u);
  for (const OrderedJson& golden : file["cases"]) {
    OrderedJson variables = file["variables"];
    if (golden.contains("variables")) variables.update(golden["variables"]);
    const auto source = golden["template"].get<std::string>();
    const std::string rendered = render(source, variables);
    if (golden.contains("error")) {
      EXPECT_EQ(rendered.substr(0, 12), "error: line ") << source << "\n" << rendered;
    } else {
      EXPECT_EQ(rendered, golden["text"].get<std::string>()) << source;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Files, TemplateGoldenTest,
                         ::testing::Values("language", "chats", "conversations",
                                           "random_expressions", "random_statements"),
                         [](const auto& test) { return std::string(test.param); });

// Every filter, test, function and method over many values (tools/testdata/make_builtins.py).
TEST(BuiltinGoldenTest, EveryBuiltinGivesTheResultOfTheReference) {
  const OrderedJson file = read_cases(std::filesystem::path(LOCKSTEP_SOURCE_DIR) / "tests" /
                                      "data" / "templates" / "builtins.json");
  int compared = 0;
  for (const auto& [call, texts] : file["calls"].items()) {
    for (size_t i = 0; i < file["values"].size(); ++i) {
      const OrderedJson wanted = i < texts.size() ? texts[i] : OrderedJson();
      if (wanted.is_boolean()) continue;
      const std::string source =
          fmt::format("{{% set v = {} %}}{{{{ {} }}}}", file["values"][i].get<std::string>(), call);
      const std::string rendered = render(source);
      EXPECT_EQ(wanted.is_null() ? rendered.substr(0, 12) : rendered,
                wanted.is_null() ? "error: line " : wanted.get<std::string>())
          << source << "\n"
          << rendered;
      ++compared;
    }
  }
  EXPECT_GT(compared, 12'000);
}

TEST(PublishedTemplateTest, RendersWhatTheReferenceRenders) {
  LOCKSTEP_NEEDS_TEST_DATA("chat_templates");
  int cases = 0;
  for (const auto& entry : std::filesystem::directory_iterator(test_data("chat_templates"))) {
    if (entry.path().extension() != ".json") continue;
    const OrderedJson file = read_cases(entry.path());
    for (const OrderedJson& golden : file["cases"]) {
      const OrderedJson variables = {{"bos_token", file["bos_token"]},
                                     {"eos_token", file["eos_token"]},
                                     {"messages", golden["messages"]},
                                     {"add_generation_prompt", golden["add_generation_prompt"]}};
      const std::string rendered = render(file["chat_template"].get<std::string>(), variables);
      const std::string wanted = golden.contains("text")
                                     ? golden["text"].get<std::string>()
                                     : "error: line 1: " + golden["error"].get<std::string>();
      EXPECT_EQ(rendered, wanted) << entry.path();
      ++cases;
    }
  }
  EXPECT_GT(cases, 40);
}

}  // namespace
}  // namespace lockstep::jinja
