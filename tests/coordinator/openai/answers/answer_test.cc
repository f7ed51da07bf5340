// SPDX-License-Identifier: Apache-2.0
// Answers made from events, without a real model: their calls and thoughts, and their chunks, which
// depend only on the events so far.
#include <gtest/gtest.h>

#include "coordinator/openai/answers/chunk_writer.h"
#include "coordinator/openai/answers/whole_answer.h"

namespace lockstep::openai {
namespace {

constexpr char kText[] =
    "<think>\nParis?\n</think>\n\nI look.\n<tool_call>\n{\"name\": \"get_weather\", "
    "\"arguments\": {\"city\": \"Paris\"}}\n</tool_call>\n<tool_call>\n{\"name\": \"now\"}\n"
    "</tool_call>";

AnswerFacts facts() {
  return {.endpoint = kChat,
          .id = "chatcmpl-1",
          .created = 5,
          .model = "m",
          .include_usage = true,
          .output = {.thoughts = find_format("think"), .tools = find_format("hermes")}};
}

// The text in pieces of `size` bytes. The last piece also has the finish reason and the counts.
std::vector<StreamEvent> stream_events(const std::string& text, size_t size) {
  std::vector<StreamEvent> events;
  for (size_t at = 0; at < text.size(); at += size)
    events.push_back({.text = text.substr(at, size)});
  events.back().finish_reason = FinishReason::kStop;
  events.back().prompt_tokens = 3;
  events.back().completion_tokens = 9;
  return events;
}

TEST(WholeAnswerTest, ThoughtsAndCallsAreFieldsOfTheMessage) {
  WholeAnswer answer(facts(), 1, 1);
  for (const StreamEvent& event : stream_events(kText, 7)) answer.add(event, 0);
  const OrderedJson choice = OrderedJson::parse(answer.text())["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
  const OrderedJson& message = choice["message"];
  EXPECT_EQ(message["content"], "I look.");
  EXPECT_EQ(message["reasoning_content"], "Paris?");
  EXPECT_EQ(message["reasoning"], "Paris?");
  ASSERT_EQ(message["tool_calls"].size(), 2u);
  const OrderedJson& call = message["tool_calls"][0];
  EXPECT_EQ(call["type"], "function");
  EXPECT_EQ(call["function"]["name"], "get_weather");
  EXPECT_EQ(call["function"]["arguments"], "{\"city\": \"Paris\"}");
  EXPECT_EQ(message["tool_calls"][1]["function"]["arguments"], "{}");
  EXPECT_EQ(call["id"].get<std::string>().size(), 9u);
  EXPECT_NE(call["id"], message["tool_calls"][1]["id"]);
}

TEST(WholeAnswerTest, AnAnswerOfCallsAloneHasNoContent) {
  WholeAnswer answer(facts(), 1, 1);
  for (const auto& event : stream_events("<tool_call>{\"name\": \"now\"}</tool_call>", 100)) {
    answer.add(event, 0);
  }
  EXPECT_TRUE(OrderedJson::parse(answer.text())["choices"][0]["message"]["content"].is_null());
}

std::vector<OrderedJson> choices_of(ChunkWriter* writer, const StreamEvent& event) {
  std::vector<OrderedJson> choices;
  for (const std::string& chunk : writer->chunks(event, 0)) {
    const OrderedJson json = OrderedJson::parse(chunk);
    EXPECT_EQ(json["choices"].size(), 1u);
    choices.push_back(json["choices"][0]);
  }
  return choices;
}

// Adds a delta as clients do.
void add_delta(const OrderedJson& delta, OrderedJson* message) {
  for (const auto& [key, value] : delta.items()) {
    if (value.is_null()) continue;
    if (key != "tool_calls") {
      OrderedJson& text = (*message)[key];
      text = (text.is_null() ? "" : text.get<std::string>()) + value.get<std::string>();
      continue;
    }
    for (OrderedJson call : value) {
      const size_t index = call["index"];
      call.erase("index");
      if (index == (*message)["tool_calls"].size()) {
        EXPECT_TRUE(call.contains("id"));
        (*message)["tool_calls"].push_back(call);
        continue;
      }
      EXPECT_FALSE(call.contains("id"));
      OrderedJson& arguments = (*message)["tool_calls"][index]["function"]["arguments"];
      arguments = arguments.get<std::string>() + call["function"]["arguments"].get<std::string>();
    }
  }
}

TEST(ChunkWriterTest, DeltasAddUpToTheWholeMessage) {
  for (const size_t size : {1, 5, 40, 1000}) {
    ChunkWriter writer(std::make_shared<const AnswerFacts>(facts()));
    WholeAnswer whole(facts(), 1, 1);
    OrderedJson message = OrderedJson::object();
    OrderedJson reason;
    for (const StreamEvent& event : stream_events(kText, size)) {
      whole.add(event, 0);
      for (const OrderedJson& choice : choices_of(&writer, event)) {
        EXPECT_TRUE(reason.is_null());
        reason = choice["finish_reason"];
        add_delta(choice["delta"], &message);
      }
    }
    EXPECT_EQ(reason, "tool_calls");
    const OrderedJson wanted = OrderedJson::parse(whole.text())["choices"][0]["message"];
    for (const auto& [key, value] : wanted.items()) {
      if (value.is_null()) continue;
      EXPECT_EQ(message[key], value) << key << " " << size;
    }
    const OrderedJson usage = OrderedJson::parse(writer.usage_chunk().value())["usage"];
    EXPECT_EQ(usage["total_tokens"], 12);
    EXPECT_EQ(usage, OrderedJson::parse(whole.text())["usage"]);
  }
}

TEST(ChunkWriterTest, TheFirstChunkHasOnlyTheRoleAndTheLastOnlyTheFinishReason) {
  AnswerFacts plain = facts();
  plain.output = {};
  ChunkWriter writer(std::make_shared<const AnswerFacts>(plain));
  const auto choices = choices_of(
      &writer, {.text = "Hi", .finish_reason = FinishReason::kStop, .stop = {.text = "END"}});
  ASSERT_EQ(choices.size(), 3u);
  EXPECT_EQ(choices[0]["delta"].dump(), R"({"role":"assistant","content":"","refusal":null})");
  EXPECT_EQ(choices[1]["delta"].dump(), R"({"content":"Hi"})");
  EXPECT_TRUE(choices[1]["finish_reason"].is_null());
  EXPECT_EQ(choices[2]["delta"], OrderedJson::object());
  EXPECT_EQ(choices[2]["finish_reason"], "stop");
  EXPECT_EQ(choices[2]["stop_reason"], "END");
  EXPECT_EQ(choices[2]["matched_stop"], "END");
}

TEST(ChunkWriterTest, AnAnswerThatBeginsWithACallHasNoContent) {
  ChunkWriter writer(std::make_shared<const AnswerFacts>(facts()));
  const auto choices = choices_of(&writer, {.text = "<tool_call>{\"name\": \"now\"}</tool_call>",
                                            .finish_reason = FinishReason::kStop});
  EXPECT_TRUE(choices[0]["delta"].at("content").is_null());
  EXPECT_EQ(choices[1]["delta"]["tool_calls"][0]["function"]["name"], "now");
  EXPECT_EQ(choices.back()["finish_reason"], "tool_calls");
}

TEST(ChunkWriterTest, ThoughtsAndContentAreSeparateChunksAndThoughtsHaveTwoNames) {
  ChunkWriter writer(std::make_shared<const AnswerFacts>(facts()));
  const auto choices =
      choices_of(&writer, {.text = "<think>hm</think>Yes", .finish_reason = FinishReason::kStop});
  ASSERT_EQ(choices.size(), 4u);
  EXPECT_TRUE(choices[0]["delta"].at("reasoning").is_null());
  EXPECT_EQ(choices[1]["delta"].dump(), R"({"reasoning":"hm","reasoning_content":"hm"})");
  EXPECT_EQ(choices[2]["delta"].dump(),
            R"({"content":"Yes","reasoning":null,"reasoning_content":null})");
  EXPECT_EQ(choices[3]["delta"].dump(),
            R"({"content":"","reasoning":null,"reasoning_content":null})");
}

TEST(ChunkWriterTest, TheSameEventsGiveTheSameBytes) {
  ChunkWriter first(std::make_shared<const AnswerFacts>(facts()));
  ChunkWriter second(std::make_shared<const AnswerFacts>(facts()));
  for (const StreamEvent& event : stream_events(kText, 3)) {
    EXPECT_EQ(first.chunks(event, 0), second.chunks(event, 0));
  }
  EXPECT_EQ(first.usage_chunk(), second.usage_chunk());
}

TEST(ChunkWriterTest, AnEventThatShowsNothingHasNoChunk) {
  ChunkWriter writer(std::make_shared<const AnswerFacts>(facts()));
  EXPECT_EQ(writer.chunks({.text = "<think>"}, 0).size(), 0u);
  EXPECT_EQ(writer.chunks({.text = "\n"}, 0).size(), 0u);
  EXPECT_EQ(writer.chunks({.finish_reason = FinishReason::kLength}, 0).size(), 2u);
}

TEST(ChunkWriterTest, UsageIsInEachChunkOnRequest) {
  AnswerFacts counted = facts();
  counted.continuous_usage = true;
  counted.prompt_tokens = {3};
  counted.output = {};
  ChunkWriter writer(std::make_shared<const AnswerFacts>(counted));
  const auto usages_of = [&](const StreamEvent& event) {
    std::vector<int> usages;
    for (const std::string& chunk : writer.chunks(event, 0)) {
      const OrderedJson usage = OrderedJson::parse(chunk)["usage"];
      EXPECT_EQ(usage["prompt_tokens"], 3);
      usages.push_back(usage["completion_tokens"]);
    }
    return usages;
  };
  EXPECT_EQ(usages_of({.token_ids = {7}, .text = "a"}), (std::vector<int>{0, 1}));
  EXPECT_EQ(usages_of({.token_ids = {7}, .text = "b"}), (std::vector<int>{2}));
  EXPECT_EQ(usages_of({.token_ids = {7}, .text = "c", .finish_reason = FinishReason::kStop}),
            (std::vector<int>{3, 3}));
}

// A model writes tags and blanks as separate tokens.
TEST(ChoiceReaderTest, ThoughtsAreCountedInTokensWithoutTheirTags) {
  for (const bool shows : {true, false}) {
    ChoiceReader reader(facts().output, shows);
    OutputDelta all;
    for (const char* text :
         {"<think>", "\n", "Pa", "ris", " ", "?", "\n", "</think>", "\n", "Yes"}) {
      all.append(reader.read({.token_ids = {1}, .text = text}));
    }
    all.append(reader.read({.finish_reason = FinishReason::kStop}));
    EXPECT_EQ(all.thought, shows ? "Paris ?" : "");
    EXPECT_EQ(all.content, "Yes");
    EXPECT_EQ(reader.reasoning_tokens(), 4);
  }
}

// Four choices of a prompt with log-probabilities, which each choice repeats.
TEST(WholeAnswerTest, ItsBytesAreAboutThoseOfItsText) {
  for (const bool echoes : {false, true}) {
    for (const bool prompt_logprobs : {false, true}) {
      WholeAnswer answer({.endpoint = kCompletions,
                          .choices_per_prompt = 4,
                          .logprobs = true,
                          .prompt_logprobs = prompt_logprobs,
                          .echoes = echoes,
                          .echo = {std::string(900, 'p')},
                          .prompt_tokens = {50}},
                         1, 4);
      std::vector<Logprob> token;
      for (int32_t id = 1234; id < 1240; ++id) token.push_back({.id = id, .logprob = -1.234567F});
      if (echoes || prompt_logprobs) answer.add({.prompt_logprobs = {50, token}}, 0);
      for (int32_t choice = 0; choice < 4; ++choice) {
        answer.add({.index = choice,
                    .token_ids = std::vector<int32_t>(20, 1234),
                    .text = std::string(1000, 'a'),
                    .logprobs = {20, token},
                    .finish_reason = FinishReason::kLength},
                   0);
      }
      const auto text = std::ssize(answer.text());
      EXPECT_GT(answer.bytes(), text / 3) << echoes << prompt_logprobs;
      EXPECT_LT(answer.bytes(), text * 3) << echoes << prompt_logprobs;
    }
  }
}

TEST(WholeAnswerTest, ThoughtsAreNullIfThereAreNone) {
  WholeAnswer answer(facts(), 1, 1);
  answer.add({.text = "Hi", .finish_reason = FinishReason::kStop}, 0);
  const OrderedJson message = OrderedJson::parse(answer.text())["choices"][0]["message"];
  EXPECT_TRUE(message.at("reasoning").is_null());
  EXPECT_TRUE(message.at("reasoning_content").is_null());
}

TEST(WholeAnswerTest, TheStopReasonIsAStopOfTheRequestNotOfTheModel) {
  AnswerFacts named = facts();
  named.stop_ids = {8};
  const auto end = [&](const StopCause& stop) {
    WholeAnswer answer(named, 1, 1);
    answer.add({.finish_reason = FinishReason::kStop, .stop = stop}, 0);
    return OrderedJson::parse(answer.text())["choices"][0];
  };
  EXPECT_EQ(end({.id = 8})["stop_reason"], 8);
  EXPECT_TRUE(end({.id = 2})["stop_reason"].is_null()) << "the model's own end";
  EXPECT_EQ(end({.id = 2})["matched_stop"], 2);
  EXPECT_EQ(end({.text = "x"})["stop_reason"], "x");
}

TEST(CallIdTest, ACallIdIsTheModelsOwnIfItWroteOne) {
  EXPECT_EQ(call_id("chatcmpl-1", 0, {.id = "functions.f:0"}), "functions.f:0");
}

TEST(CallIdTest, ACallIdHasNineCharactersThatDependOnAnswerChoiceAndCall) {
  const std::string id = call_id("chatcmpl-1", 0, {.index = 0});
  EXPECT_EQ(id, call_id("chatcmpl-1", 0, {.index = 0}));
  EXPECT_EQ(id.size(), 9u);
  for (const char c : id) EXPECT_TRUE(std::isalnum(static_cast<unsigned char>(c))) << id;
  EXPECT_NE(id, call_id("chatcmpl-1", 0, {.index = 1}));
  EXPECT_NE(id, call_id("chatcmpl-1", 1, {.index = 0}));
  EXPECT_NE(id, call_id("chatcmpl-2", 0, {.index = 0}));
}

}  // namespace
}  // namespace lockstep::openai
