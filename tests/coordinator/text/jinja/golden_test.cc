// SPDX-License-Identifier: Apache-2.0
// Against what Python's Jinja renders in the reference's environment: cases of our own
// (tools/testdata/make_templates.py), and published templates where they are at hand.
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
                         ::testing::Values("language", "chats", "random_expressions",
                                           "random_statements"),
                         [](const auto& info) { return std::string(info.param); });

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
