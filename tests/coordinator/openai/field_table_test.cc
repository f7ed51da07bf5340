// SPDX-License-Identifier: Apache-2.0
// The table of fields: that it is the documents', and that no field of a request is lost.
#include "coordinator/openai/field_table.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <random>
#include <sstream>

#include "base/log.h"
#include "base/source_dir.h"
#include "coordinator/openai/unknown_fields.h"
#include "tests/coordinator/openai/api_server.h"
#include "tests/coordinator/openai/bodies.h"

namespace lockstep::openai {
namespace {

TEST(FieldTableTest, EveryGrpcFieldOfTheTableIsThereAndMostOfThemAreInTheTable) {
  std::string all;
  for (const Field& field : fields()) {
    all += std::string(" ") + field.grpc + ",";
    std::istringstream words{std::string(field.grpc)};
    for (std::string word; std::getline(words >> std::ws, word, ',');) {
      const bool in_chat = word.starts_with("chat.");
      const auto* descriptor =
          in_chat ? v1::ChatMessages::descriptor() : v1::GenerateRequest::descriptor();
      EXPECT_NE(descriptor->FindFieldByName(in_chat ? word.substr(5) : word), nullptr) << word;
    }
  }
  for (int i = 0; i < v1::GenerateRequest::descriptor()->field_count(); ++i) {
    const std::string name = v1::GenerateRequest::descriptor()->field(i)->name();
    if (name == "request_id" || name == "chat") continue;  // Made here; its fields are listed.
    EXPECT_NE(all.find(" " + name + ","), std::string::npos) << name;
  }
}

TEST(FieldTableTest, TheListsInTheDocumentsAreThisTables) {
  std::ifstream file(LOCKSTEP_SOURCE_DIR "/docs/http.md");
  const std::string page(std::istreambuf_iterator<char>(file), {});
  for (const std::string& table :
       {served_fields_table(), refused_fields_table(), harmless_fields_table()}) {
    EXPECT_NE(page.find(table), std::string::npos) << "docs/http.md must have this table:\n"
                                                   << table;
  }
}

TEST(FieldTableTest, AFieldIsInOneRowOfEachEndpoint) {
  std::map<std::string, unsigned> seen;
  for (const Field& field : fields()) {
    EXPECT_EQ(seen[field.name] & field.endpoints, 0u) << field.name;
    seen[field.name] |= field.endpoints;
  }
}

struct Path {
  Endpoint endpoint;
  const char* path;
  OrderedJson body;
};

const Path kPaths[] = {
    {kCompletions, "/v1/completions", {{"prompt", "Once"}, {"max_tokens", 2}}},
    {kChat,
     "/v1/chat/completions",
     {{"messages", {{{"role", "user"}, {"content", "Once"}}}}, {"max_tokens", 2}}},
    {kResponses, "/v1/responses", {{"input", "Once"}, {"max_output_tokens", 2}}},
    {kTokenize, "/tokenize", {{"prompt", "Once"}}},
    {kDetokenize, "/detokenize", {{"tokens", {5, 6}}}}};

TEST(FieldTableTest, WhatIsRefusedIs400ByItsNameUnlessItAsksForNothing) {
  ApiServer server;
  for (const Field& field : fields()) {
    for (const Path& path : kPaths) {
      if (kind_of(field) != FieldKind::kRefused || (field.endpoints & path.endpoint) == 0) continue;
      SCOPED_TRACE(std::string(path.path) + " " + field.name);
      const auto status = [&](const OrderedJson& value) {
        return server.post(path.path, with(path.body, {{field.name, value}}).dump());
      };
      expect_error(status({{"any", {"thing", 0.25}}}), 400, field.name, nullptr, field.note);
      EXPECT_EQ(status(nullptr).status, 200);
      const std::string neutral = *field.neutral == '\0' ? "\"\", [], false" : field.neutral;
      for (const OrderedJson& value : OrderedJson::parse("[" + neutral + "]")) {
        EXPECT_EQ(status(value).status, 200) << value;
      }
    }
  }
}

TEST(FieldTableTest, WhatIsHarmlessChangesNothing) {
  ApiServer server;
  for (const Path& path : kPaths) {
    if (path.endpoint == kTokenize || path.endpoint == kDetokenize) continue;
    OrderedJson body = with(path.body, {{"seed", 1}});
    OrderedJson plain = server.post_json(path.path, body);
    for (const Field& field : fields()) {
      const bool is_here = (field.endpoints & path.endpoint) != 0;
      if (is_here && kind_of(field) == FieldKind::kHarmless) body[field.name] = {{"a", 1}};
    }
    const http::Response response = server.post(path.path, body.dump());
    ASSERT_EQ(response.status, 200) << response.body;
    EXPECT_EQ(header(response, "X-Ignored-Fields"), "");
    OrderedJson answer = OrderedJson::parse(response.body);
    const std::string text = path.endpoint == kResponses ? "output" : "choices";
    for (OrderedJson* json : {&answer, &plain}) {
      if (path.endpoint == kResponses) json->at("output")[0]["id"] = "";
    }
    EXPECT_EQ(answer.at(text), plain.at(text));
  }
}

TEST(FieldTableTest, ToolsOfAnEmptyListAreRefusedButInResponses) {
  ApiServer server;
  const OrderedJson none = {{"tools", OrderedJson::array()}};
  expect_error(server.post("/v1/chat/completions", with(kTalk, none).dump()), 400, "tools", nullptr,
               "at least one tool");
  EXPECT_EQ(server.post("/v1/responses", with(kPaths[2].body, none).dump()).status, 200);
}

TEST(FieldTableTest, SixtyFourTextsMayStopAnAnswer) {
  ApiServer server;
  const auto status = [&](size_t count) {
    const OrderedJson more = {{"stop", std::vector<std::string>(count, "zzz")}};
    return server.post("/v1/completions", with(kStory, more).dump()).status;
  };
  EXPECT_EQ(status(64), 200);
  EXPECT_EQ(status(65), 400);
}

TEST(FieldTableTest, AFieldThatNoTableHasIsNamed) {
  ApiServer server;
  for (const Path& path : kPaths) {
    const OrderedJson body = with(path.body, {{"no_such_field", {1, 2}}, {"an,odd\none", 1}});
    EXPECT_EQ(header(server.post(path.path, body.dump()), "X-Ignored-Fields"),
              "no_such_field, an?odd?one")
        << path.path;
  }
  EXPECT_EQ(server.api().unknown_fields(), 10);
  const http::Response stream =
      server.post("/v1/completions", with(kStory, {{"stream", true}, {"odd", 1}}).dump());
  EXPECT_EQ(header(stream, "X-Ignored-Fields"), "odd");
}

TEST(FieldTableTest, AFieldThatNoTableHasIsLoggedOncePerClient) {
  std::array<int, 2> ends = {};
  ASSERT_EQ(pipe(ends.data()), 0);
  const auto level = spdlog::get_level();
  spdlog::set_level(spdlog::level::info);
  {
    const Log log({.format = LogFormat::kJson, .background = true, .descriptor = ends[1]});
    UnknownFields unknown;
    const testing::FakeExchange one("POST", "/v1/completions", "");
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(unknown.take(one, {"odd", "other"}).value(), "odd, other");
    }
    EXPECT_EQ(unknown.count(), 6);
  }
  spdlog::set_level(level);
  close(ends[1]);
  std::string text(4096, '\0');
  text.resize(static_cast<size_t>(std::max<ssize_t>(::read(ends[0], text.data(), text.size()), 0)));
  close(ends[0]);
  EXPECT_EQ(std::ranges::count(text, '\n'), 2) << text;
  EXPECT_NE(text.find(R"("field":"odd")"), std::string::npos) << text;
}

TEST(FieldTableTest, AFieldThatNoTableHasIsAnErrorWhereTheServerSaysSo) {
  ApiServer server({}, {}, {.unknown_fields = "error"});
  for (const Path& path : kPaths) {
    EXPECT_EQ(server.post(path.path, path.body.dump()).status, 200) << path.path;
    expect_error(server.post(path.path, with(path.body, {{"odd", nullptr}}).dump()), 400, "odd",
                 nullptr, "no such field");
  }
}

// A value for any field: plausible, out of range, or of another type.
OrderedJson odd_value(std::mt19937& random) {
  const OrderedJson values[] = {nullptr,
                                true,
                                false,
                                0,
                                -1,
                                1,
                                2,
                                0.5,
                                1e300,
                                UINT64_MAX,
                                INT64_MIN,
                                "",
                                "auto",
                                "\xc3\xa9<|end|>",
                                std::string(5000, 'a'),
                                OrderedJson::array(),
                                OrderedJson::object(),
                                {1, 2},
                                {"text"},
                                {{"type", "text"}},
                                {{"type", "function"}, {"function", {{"name", "f"}}}},
                                {{{"role", "user"}, {"content", "Once"}}},
                                {{"5", 1}},
                                {OrderedJson::array()}};
  return values[random() % std::size(values)];
}

// Seed 1. Names of any endpoint, and some unknown ones.
TEST(FieldTableTest, NoRandomFieldIsLostOnAnyEndpoint) {
  ApiServer server;
  std::mt19937 random(1);
  int taken = 0;
  for (int i = 0; i < 1'500; ++i) {
    const Path& path = kPaths[random() % std::size(kPaths)];
    OrderedJson body = path.body;
    for (uint32_t n = random() % 3 + 1; n > 0; --n) {
      const bool is_known = random() % 4 != 0;
      const std::string name = is_known ? fields()[random() % fields().size()].name
                                        : "field_" + std::to_string(random() % 1000);
      if (!path.body.contains(name)) body[name] = odd_value(random);
    }
    const http::Response response = server.post(path.path, body.dump());
    ASSERT_LT(response.status, 500) << path.path << body << response.body;
    if (response.status != 200) {
      EXPECT_EQ(OrderedJson::parse(response.body).at("error").size(), 4u) << response.body;
      continue;
    }
    ++taken;
    const std::string ignored = ", " + header(response, "X-Ignored-Fields") + ",";
    for (const auto& [name, value] : body.items()) {
      const bool is_in_table = std::ranges::any_of(fields(), [&](const Field& field) {
        return field.name == name && (field.endpoints & path.endpoint) != 0;
      });
      const bool is_named = ignored.find(", " + name + ",") != std::string::npos;
      EXPECT_NE(is_in_table, is_named) << path.path << " " << name << " " << ignored;
    }
  }
  EXPECT_GT(taken, 300);
}

}  // namespace
}  // namespace lockstep::openai
