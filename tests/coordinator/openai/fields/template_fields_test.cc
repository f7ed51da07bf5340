// SPDX-License-Identifier: Apache-2.0
// The fields that reach the chat template beside a request's messages, as clients see them.
#include <fstream>

#include "base/source_dir.h"
#include "tests/coordinator/openai/api_server.h"
#include "tests/coordinator/openai/bodies.h"
#include "tests/support/files/temp_folder.h"

namespace lockstep::openai {
namespace {

// A server of the demo model with this template.
class TemplateServer {
 public:
  explicit TemplateServer(const std::string& source)
      : server_({}, {.chat_template = written(source)}) {}

  ApiServer& server() { return server_; }
  // The prompt of the conversation with these fields.
  std::string prompt(const OrderedJson& fields) {
    const OrderedJson ids =
        server_.post_json("/tokenize", with({{"messages", kTalk["messages"]}}, fields));
    return server_.post_json("/detokenize", {{"tokens", ids["tokens"]}})["prompt"];
  }

 private:
  std::string written(const std::string& source) {
    const std::string path = folder_.path() / "chat.jinja";
    std::ofstream(path) << source;
    return path;
  }
  TempFolder folder_;
  ApiServer server_;
};

TEST(TemplateFieldsTest, TheEffortReachesTheTemplate) {
  TemplateServer talk("{{ reasoning_effort|default('medium') }} {{ enable_thinking }}");
  EXPECT_EQ(talk.prompt(OrderedJson::object()), "medium ");
  EXPECT_EQ(talk.prompt({{"reasoning_effort", nullptr}}), "medium ");
  EXPECT_EQ(talk.prompt({{"reasoning_effort", "high"}}), "high True");
  EXPECT_EQ(talk.prompt({{"reasoning_effort", "none"}}), "none False");
  EXPECT_EQ(talk.prompt({{"reasoning_effort", "max"},
                         {"chat_template_kwargs",
                          {{"reasoning_effort", "low"}, {"enable_thinking", "maybe"}}}}),
            "max maybe");
}

TEST(TemplateFieldsTest, VariablesThatNoTemplateReadsAreAccepted) {
  TemplateServer talk("{{ thinking }} {{ messages[0].role }}");
  EXPECT_EQ(talk.prompt({{"chat_template_kwargs", {{"thinking", true}, {"mood", "good"}}}}),
            "True user");
}

TEST(TemplateFieldsTest, TheEffortOfResponsesIsAMemberOfReasoning) {
  auto model = Model::open({});
  ASSERT_TRUE(model.ok()) << model.status();
  const auto variables = [&](const std::string& reasoning) {
    const auto request =
        parse_request(kResponses, R"({"input": "Hi", "reasoning": )" + reasoning + "}", **model);
    return request.ok() ? request->shared.chat().template_variables()
                        : std::string(request.status().message());
  };
  EXPECT_EQ(variables(R"({"effort": "xhigh", "summary": "auto"})"),
            R"({"reasoning_effort":"xhigh"})");
  EXPECT_EQ(variables(R"({"effort": null})"), "");
  EXPECT_EQ(variables("{}"), "");
  EXPECT_EQ(variables(R"({"effort": "huge"})"),
            "reasoning.effort: must be none, minimal, low, medium, high, xhigh or max, found "
            "\"huge\"");
  EXPECT_NE(variables("true").find("reasoning: must be an object"), std::string::npos);
}

TEST(TemplateFieldsTest, TheErrorForAMissingTemplateSaysWhatToDoAndNamesNoFolder) {
  const TempFolder folder;
  for (const char* name : {"config.json", "generation_config.json", "tokenizer.json",
                           "tokenizer_config.json", "model.safetensors"}) {
    std::filesystem::create_symlink(std::filesystem::path(LOCKSTEP_SOURCE_DIR) / "demo" / name,
                                    folder.path() / name);
  }
  ApiServer server({}, {.path = folder.path(), .names = {"demo"}});
  const http::Response refused = server.post("/v1/chat/completions", kTalk.dump());
  expect_error(refused, 400, "messages", nullptr, "--chat-template FILE");
  EXPECT_NE(refused.body.find("chatml"), std::string::npos) << refused.body;
  EXPECT_EQ(refused.body.find(folder.path().string()), std::string::npos) << refused.body;
  std::ofstream(folder.path() / "chat_template.jinja") << "{{ 1 + }}";
  ApiServer broken({}, {.path = folder.path(), .names = {"demo"}});
  expect_error(broken.post("/v1/chat/completions", kTalk.dump()), 400, "messages", nullptr,
               "messages: chat_template.jinja: line 1: ");
}

}  // namespace
}  // namespace lockstep::openai
