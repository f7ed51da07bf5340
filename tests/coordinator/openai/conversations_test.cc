// SPDX-License-Identifier: Apache-2.0
// A client's conversation becomes the prompt that the model's template intends.
// tests/data/templates has the reference's renders of the messages that each template needs. A text
// that a template leaves out is a 400.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/source_dir.h"
#include "coordinator/api/chat/chat_prompt.h"
#include "coordinator/openai/fields/values.h"
#include "tests/coordinator/openai/api_server.h"
#include "tests/coordinator/openai/bodies.h"
#include "tests/support/files/temp_folder.h"
#include "tests/support/files/test_data.h"

namespace lockstep::openai {
namespace {

constexpr char kEveryTurn[] = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}";
constexpr char kThreeRoles[] =
    "{% for m in messages if m.role in ['user', 'assistant', 'tool'] %}<{{ m.role }}>"
    "{{ m.content }}{% for c in m.tool_calls %}<call>{{ c.function|tojson }}{% endfor %}"
    "{% endfor %}";
constexpr char kSystemFirst[] =
    "{{ messages[0].content }}{% for m in messages if m.role == 'user' or m.role == 'assistant' %}"
    "<{{ m.role }}>{{ m.content }}{% endfor %}";
constexpr char kCallsAlone[] =
    "{% for m in messages if m.role in ['user', 'assistant'] %}<{{ m.role }}>{{ m.content }}"
    "{% for c in m.tool_calls %}<call>{{ c.function|tojson }}{% endfor %}{% endfor %}";
constexpr char kAlternating[] =
    "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Roles must alternate.') }}{% endif %}<{{ m.role }}>{{ m.content }}"
    "{% endfor %}";

const OrderedJson kTool = {{"type", "function"}, {"function", {{"name", "look"}}}};
const OrderedJson kQuestion = {{"role", "user"}, {"content", "Where?"}};
const OrderedJson kAnswer = {{"role", "assistant"}, {"content", "There."}};
const OrderedJson kSystem = {{"role", "system"}, {"content", "Be brief."}};
const OrderedJson kCall = OrderedJson::parse(R"({"role": "assistant", "content": null,
    "tool_calls": [{"id": "a", "function": {"name": "look", "arguments": "{}"}}]})");
const OrderedJson kResult = {{"role", "tool"}, {"tool_call_id", "a"}, {"content", "Here."}};

// A model folder that has only this template.
class Template {
 public:
  explicit Template(const std::string& source, const OrderedJson& bos_token = "<s>",
                    const OrderedJson& eos_token = "</s>") {
    std::ofstream(folder_.path() / "tokenizer_config.json")
        << OrderedJson{{"bos_token", bos_token}, {"eos_token", eos_token}}.dump();
    std::ofstream(path()) << source;
  }
  std::string path() const { return folder_.path() / "chat_template.jinja"; }

  // The prompt that chat completions make of these fields.
  absl::StatusOr<std::string> prompt_of(const OrderedJson& request) const {
    ASSIGN_OR_RETURN(const ChatTemplate loaded, ChatTemplate::load(folder_.path()));
    v1::ChatMessages chat;
    RETURN_IF_ERROR(read_messages(request["messages"], &chat));
    if (request.contains("tools")) RETURN_IF_ERROR(read_tools(request["tools"], &chat));
    chat.set_add_generation_prompt(request.value("add_generation_prompt", true));
    if (request.contains("documents")) {
      for (const OrderedJson& each : request["documents"]) chat.add_documents(each.dump());
    }
    ASSIGN_OR_RETURN(const TemplateInput made,
                     to_template_input(chat, {}, loaded.traits(chat.tools_size() > 0)));
    ASSIGN_OR_RETURN(MarkedText text, loaded.render(made, std::tm{.tm_mday = 1}));
    return std::move(text.bytes);
  }

 private:
  TempFolder folder_;
};

TEST(ConversationsTest, EachTemplateGetsTheMessagesThatTheReferenceNeeds) {
  const auto path =
      std::filesystem::path(LOCKSTEP_SOURCE_DIR) / "tests/data/templates" / "conversations.json";
  std::ifstream file(path);
  const OrderedJson cases = OrderedJson::parse(file)["cases"];
  ASSERT_GT(cases.size(), 30u);
  for (const OrderedJson& golden : cases) {
    const Template chat_template(golden["template"].get<std::string>());
    const auto prompt = chat_template.prompt_of(golden["request"]);
    ASSERT_TRUE(prompt.ok()) << golden["name"] << prompt.status();
    EXPECT_EQ(*prompt, golden["text"].get<std::string>()) << golden["name"];
  }
}

TEST(ConversationsTest, PublishedTemplatesGetOrdinaryConversationsUnchanged) {
  LOCKSTEP_NEEDS_TEST_DATA("chat_templates");
  int cases = 0;
  for (const auto& entry : std::filesystem::directory_iterator(test_data("chat_templates"))) {
    if (entry.path().extension() != ".json") continue;
    std::ifstream file(entry.path());
    const OrderedJson published = OrderedJson::parse(file);
    const Template chat_template(published["chat_template"].get<std::string>(),
                                 published["bos_token"], published["eos_token"]);
    for (const OrderedJson& golden : published["cases"]) {
      const auto prompt = chat_template.prompt_of(golden);
      ASSERT_EQ(prompt.ok(), golden.contains("text")) << entry.path() << prompt.status();
      if (prompt.ok()) {
        EXPECT_EQ(*prompt, golden["text"].get<std::string>()) << entry.path();
      }
      ++cases;
    }
  }
  EXPECT_GT(cases, 40);
}

struct LeftOut {
  const char* what;
  const char* source;
  OrderedJson more;  // More fields of the body.
  const char* param;
  const char* text;
};

std::vector<LeftOut> left_out() {
  const OrderedJson critic = {{"role", "critic"}, {"content", "Good."}};
  return {
      {"tools", kEveryTurn, {{"tools", {kTool}}}, "tools", "does not show them"},
      {"documents",
       kEveryTurn,
       {{"documents", {{{"text", "a"}}}}},
       "documents",
       "does not show them"},
      {"a result",
       kCallsAlone,
       {{"messages", {kQuestion, kCall, kResult}}},
       "messages[2].role",
       "leaves out messages of the role tool"},
      {"a system's text",
       kThreeRoles,
       {{"messages", {kSystem, kQuestion}}},
       "messages[0].role",
       "put the text into a user's"},
      {"a later system's text",
       kSystemFirst,
       {{"messages", {kSystem, kQuestion, kAnswer, kSystem, kQuestion}}},
       "messages[3].role",
       "except those before all others"},
      {"an unknown role",
       kThreeRoles,
       {{"messages", {kQuestion, critic}}},
       "messages[1].role",
       "leaves out messages of the role critic"},
      {"a role that is refused",
       kAlternating,
       {{"messages", {kSystem, kQuestion}}},
       "messages[0].role",
       "Roles must alternate."},
      {"turns that are refused",
       kAlternating,
       {{"messages", {kQuestion, kQuestion}}},
       "messages",
       "Roles must alternate."},
  };
}

TEST(ConversationsTest, AFieldThatTheTemplateLeavesOutIsRefusedByItsName) {
  for (const LeftOut& each : left_out()) {
    const Template chat_template(each.source);
    ApiServer server({}, {.chat_template = chat_template.path()});
    for (const char* path : {"/v1/chat/completions", "/tokenize"}) {
      SCOPED_TRACE(std::string(each.what) + " at " + path);
      expect_error(server.post(path, with({{"messages", {kQuestion}}}, each.more).dump()), 400,
                   each.param, nullptr, each.text);
    }
  }
}

// Each of these templates leaves out in some conversations what it usually shows.
TEST(ConversationsTest, AFieldLeftOutOfOneConversationIsRefusedByItsName) {
  const std::string turns =
      "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% for c in m.tool_calls %}"
      "{{ c.function|tojson }}{% endfor %}{% endfor %}";
  const OrderedJson second = {{"role", "user"}, {"content", "And now?"}};
  const LeftOut left_out[] = {
      {"tools after a turn",
       "{% if messages|length < 3 %}{{ tools|tojson }}{% endif %}",
       {{"messages", {kQuestion, kAnswer, second}}, {"tools", {kTool}}},
       "tools[0]",
       "leaves the tool out of this conversation"},
      {"a system's text after five turns",
       "{% if messages|length > 6 and messages[0].role == 'system' %}"
       "{% set messages = messages[1:] %}{% endif %}",
       {{"messages",
         {kSystem, kQuestion, kAnswer, kQuestion, kAnswer, kQuestion, kAnswer, second}}},
       "messages[0].content",
       "leaves the text of the role system out of this conversation"},
      {"the second result",
       "{% if messages|length > 4 %}{% set messages = messages[:4] %}{% endif %}",
       {{"messages", {kQuestion, kCall, kResult, kCall, {{"role", "tool"}, {"content", "Gone."}}}}},
       "messages[4].content",
       "leaves the text of the role tool out of this conversation"},
  };
  for (const LeftOut& each : left_out) {
    const Template chat_template(each.source + turns);
    ApiServer server({}, {.chat_template = chat_template.path()});
    expect_error(server.post("/tokenize", each.more.dump()), 400, each.param, nullptr, each.text);
  }
}

// A template drops by design what its model was trained without: this is not the client's error.
TEST(ConversationsTest, FieldsLeftOutOfEarlierTurnsAndBetweenCallsAreAccepted) {
  const Template early("{% set messages = messages[-3:] %}" + std::string(kEveryTurn));
  ApiServer short_memory({}, {.chat_template = early.path()});
  const OrderedJson turns = {
      kQuestion, kAnswer, kQuestion, kAnswer, {{"role", "user"}, {"content", "And now?"}}};
  EXPECT_EQ(short_memory.post("/tokenize", OrderedJson{{"messages", turns}}.dump()).status, 200);
  const Template tools(
      "{% if messages[-1].role == 'user' %}{{ tools|tojson }}{% endif %}{% for m in messages %}"
      "<{{ m.role }}>{{ m.content }}{% for c in m.tool_calls %}{{ c.function|tojson }}{% endfor %}"
      "{% endfor %}");
  ApiServer no_tools({}, {.chat_template = tools.path()});
  const OrderedJson loop = {{"messages", {kQuestion, kCall, kResult}}, {"tools", {kTool}}};
  EXPECT_EQ(no_tools.post("/tokenize", loop.dump()).status, 200);
}

// The templates trim, escape or reorder the text, or drop thoughts: nothing else is lost.
TEST(ConversationsTest, AFieldShownInAnotherFormIsAccepted) {
  const OrderedJson odd = {{"role", "user"}, {"content", " \"So\"\n\té & <b>? "}};
  const OrderedJson messages = {kSystem, odd, kCall, kResult, kAnswer, odd};
  for (const char* shown : {"m.content|trim", "m.content|tojson", "m.content|upper", "m.content|e",
                            "m.content.split('<b>')[-1]"}) {
    const Template chat_template(
        "{% for m in messages|reverse %}{{ " + std::string(shown) +
        " }}{% for c in m.tool_calls %}{{ c.function|tojson }}{% endfor %}{% endfor %}");
    ApiServer server({}, {.chat_template = chat_template.path()});
    const http::Response response =
        server.post("/tokenize", OrderedJson{{"messages", messages}}.dump());
    EXPECT_EQ(response.status, 200) << shown << response.body;
  }
}

// The template shows tools, but in no known format of calls.
TEST(ConversationsTest, ToolsWhoseCallsCannotBeReadAreRefused) {
  const Template chat_template("{{ messages[-1].content }}{{ tools }}");
  const std::string body =
      with({{"messages", {kQuestion}}}, {{"tools", {kTool}}, {"max_tokens", 1}}).dump();
  const auto answer = [&](const ApiOptions& options, const char* path, const std::string& text) {
    ApiServer server({}, {.chat_template = chat_template.path()}, options);
    return server.post(path, text);
  };
  expect_error(answer({}, "/v1/chat/completions", body), 400, "tools", nullptr,
               "--tool-parser none");
  EXPECT_EQ(answer({.tool_parser = "none"}, "/v1/chat/completions", body).status, 200);
  EXPECT_EQ(answer({.tool_parser = "hermes"}, "/v1/chat/completions", body).status, 200);
  EXPECT_EQ(answer({}, "/tokenize", body).status, 200);
}

// Otherwise a client that changes its model in the middle of a conversation would be stuck.
TEST(ConversationsTest, AConversationWithCallsGoesOnEvenIfNoCallsCanBeRead) {
  const Template chat_template("{% for m in messages %}{{ m }}{% endfor %}{{ tools }}");
  const std::string body = with({{"messages", {kQuestion, kCall, kResult, kAnswer, kQuestion}}},
                                {{"tools", {kTool}}, {"max_tokens", 1}})
                               .dump();
  const auto answer = [&](const char* mode) {
    ApiServer server({}, {.chat_template = chat_template.path()}, {.unknown_fields = mode});
    return server.post("/v1/chat/completions", body);
  };
  const http::Response passed = answer("pass");
  EXPECT_EQ(passed.status, 200) << passed.body;
  EXPECT_EQ(header(passed, "X-Ignored-Fields"), "tools");
  expect_error(answer("error"), 400, "tools", nullptr, "--tool-parser none");
}

TEST(ConversationsTest, SeveralTextsStayAListIfTheTemplateTakesLists) {
  const OrderedJson parts = {{{"type", "text"}, {"text", " A "}}, "", "B"};
  const OrderedJson message = {{"role", "user"}, {"content", parts}};
  const OrderedJson alone = OrderedJson::array({message});
  const auto prompt_of = [](const std::string& content, const OrderedJson& messages) {
    const Template chat_template("{% for m in messages %}<{{ m.role }}>" + content +
                                 "{% endfor %}");
    return chat_template.prompt_of({{"messages", messages}, {"add_generation_prompt", false}});
  };
  const std::string walked = "{% for p in m.content %}[{{ p.text }}]{% endfor %}";
  const std::string either =
      "{% if m.content is string %}[{{ m.content }}]{% else %}" + walked + "{% endif %}";
  EXPECT_EQ(*prompt_of("[{{ m.content }}]", alone), "<user>[ A \n\nB]");
  EXPECT_EQ(*prompt_of(either, alone), "<user>[ A ][][B]");
  EXPECT_EQ(*prompt_of(walked, alone), "<user>[ A ][][B]");
  EXPECT_EQ(
      *prompt_of("{% if m.role == 'user' %}" + either + "{% else %}{{ m.content }}{% endif %}",
                 alone),
      "<user>[ A \n\nB]");
  // This template shows the system message only if the last message is a question. The system
  // message therefore goes before the first text of the last question.
  const std::string beside_question =
      "{% if m.role != 'system' or messages[-1].role == 'user' %}" + either + "{% endif %}";
  EXPECT_EQ(*prompt_of(beside_question, {kSystem, message, kAnswer}),
            "<user>[Be brief.\n\n A ][][B]<assistant>[There.]");
}

TEST(ConversationsTest, ToolsArePassedInTheVariableThatTheTemplateReads) {
  for (const char* name : {"tools", "xml_tools"}) {
    const Template chat_template("{% for m in messages %}{{ m.content }}{% endfor %}{% for t in " +
                                 std::string(name) +
                                 " or [] %}[{{ t.function.name }}]{% endfor %}");
    EXPECT_EQ(*chat_template.prompt_of({{"messages", OrderedJson::array({kQuestion})},
                                        {"tools", OrderedJson::array({kTool})}}),
              "Where?[look]");
  }
}

TEST(ConversationsTest, FieldsWithoutEffectAreAccepted) {
  const OrderedJson unknown_name = {{"role", "user"}, {"name", "Ann"}, {"content", "Hi"}};
  OrderedJson thinking = kAnswer;
  thinking["reasoning_content"] = "Hm.";
  const OrderedJson bodies[] = {
      {{"tools", {kTool}}, {"tool_choice", "none"}},
      {{"documents", OrderedJson::array()}},
      {{"messages", {unknown_name, thinking, kQuestion}}},
      {{"messages", {kQuestion, {{"role", "assistant"}, {"content", ""}}, kQuestion}}},
  };
  const Template chat_template(kThreeRoles);
  ApiServer server({}, {.chat_template = chat_template.path()});
  for (const OrderedJson& more : bodies) {
    const http::Response response =
        server.post("/tokenize", with({{"messages", {kQuestion}}}, more).dump());
    EXPECT_EQ(response.status, 200) << more << response.body;
  }
}

// The template gets all messages and tools, and chooses what it shows.
TEST(ConversationsTest, ATemplateThatShowsOnlyTheLastMessageIsNotChecked) {
  const Template chat_template("{{ messages[-1].content }}");
  const auto prompt = chat_template.prompt_of(
      {{"messages", {kSystem, kQuestion, kCall, kResult, kQuestion}}, {"tools", {kTool}}});
  ASSERT_TRUE(prompt.ok()) << prompt.status();
  EXPECT_EQ(*prompt, "Where?");
}

TEST(ConversationsTest, ResponsesAcceptInstructionsDeveloperMessagesAndTruncatedCalls) {
  const Template chat_template(
      "{% if messages[0].role == 'system' %}<system>{{ messages[0].content }}{% endif %}"
      "{% for m in messages if m.role != 'system' and m.role != 'developer' %}<{{ m.role }}>"
      "{{ m.reasoning_content }}{{ m.content }}{% for c in m.tool_calls %}<call>"
      "{% for k, v in c.function.arguments.items() %}{{ k }}={{ v }}{% endfor %}{% endfor %}"
      "{% endfor %}");
  const auto model = Model::open({.chat_template = chat_template.path()});
  ASSERT_TRUE(model.ok()) << model.status();
  const auto request = parse_request(kResponses, R"({"instructions": "Be brief.", "input": [
      {"role": "developer", "content": "Rhyme."}, {"role": "user", "content": "Where?"},
      {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}]},
      {"type": "function_call", "call_id": "x", "name": "f", "arguments": "{\"place\": \"Be"},
      {"type": "function_call_output", "call_id": "x",
       "output": [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}]}]})",
                                     **model);
  ASSERT_TRUE(request.ok()) << request.status();
  const auto prompt = render_chat(request->shared.chat(), **model);
  ASSERT_TRUE(prompt.ok()) << prompt.status();
  EXPECT_EQ(prompt->bytes, "<system>Be brief.\n\nRhyme.<user>Where?<assistant>Hm.<call><tool>a\nb");
}

TEST(ConversationsTest, TheDeprecatedFunctionCallIsReadAndItsErrorsAreNamed) {
  v1::ChatMessages chat;
  const OrderedJson answer = {{"role", "assistant"}, {"content", "Hi"}, {"function_call", nullptr}};
  ASSERT_TRUE(read_messages({kQuestion, answer}, &chat).ok());
  EXPECT_EQ(chat.messages(1).tool_calls_size(), 0);
  OrderedJson both = kCall;
  both["function_call"] = {{"name", "look"}, {"arguments", "{}"}};
  ASSERT_TRUE(read_messages({kQuestion, both}, &chat).ok());
  EXPECT_EQ(chat.messages(3).tool_calls_size(), 1);
  const OrderedJson wrong[] = {5, {{"arguments", "{}"}}};
  const char* fields[] = {"messages[0].function_call: ", "messages[0].function_call.name: "};
  for (int i = 0; i < 2; ++i) {
    const absl::Status status =
        read_messages({{{"role", "assistant"}, {"function_call", wrong[i]}}}, &chat);
    EXPECT_EQ(message_of(status).rfind(fields[i], 0), 0u) << status;
  }
}

TEST(ConversationsTest, PicturesAndSoundsAreRefusedInAnyContent) {
  ApiServer server;
  for (const char* type : {"image_url", "input_image", "input_audio", "file"}) {
    const OrderedJson content = OrderedJson::array({{{"type", type}}});
    expect_error(
        server.post("/v1/chat/completions",
                    OrderedJson{{"messages", {{{"role", "tool"}, {"content", content}}}}}.dump()),
        400, "messages[0].content[0].type", nullptr, "reads no images");
    expect_error(
        server.post("/v1/responses",
                    OrderedJson{{"input", {{{"role", "user"}, {"content", content}}}}}.dump()),
        400, "input[0].content[0].type", nullptr, "reads no images");
  }
}

}  // namespace
}  // namespace lockstep::openai
