// SPDX-License-Identifier: Apache-2.0
// The table of fields: docs/http.md has the same lists, and no field of a request is lost.
#include "coordinator/openai/fields/field_table.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <random>
#include <span>
#include <sstream>

#include "base/log.h"
#include "base/source_dir.h"
#include "coordinator/openai/fields/unknown_fields.h"
#include "tests/coordinator/openai/api_server.h"
#include "tests/coordinator/openai/bodies.h"
#include "tests/fuzz/fields_input.h"

namespace lockstep::openai {
namespace {

TEST(FieldTableTest, TheTablesGrpcFieldsExistAndNoneIsMissing) {
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
    if (name == "request_id" || name == "chat") continue;  // The table lists chat's fields.
    EXPECT_NE(all.find(" " + name + ","), std::string::npos) << name;
  }
}

TEST(FieldTableTest, TheListsInTheDocumentsAreMadeFromTheTable) {
  std::ifstream file(LOCKSTEP_SOURCE_DIR "/docs/http.md");
  const std::string page(std::istreambuf_iterator<char>(file), {});
  for (const std::string& table :
       {served_fields_table(), refused_fields_table(), harmless_fields_table()}) {
    EXPECT_NE(page.find(table), std::string::npos) << "docs/http.md must have this table:\n"
                                                   << table;
  }
}

TEST(FieldTableTest, NoEndpointHasAFieldInTwoRows) {
  std::map<std::string, unsigned> seen;
  for (const Field& field : fields()) {
    EXPECT_EQ(seen[field.name] & field.endpoints, 0u) << field.name;
    seen[field.name] |= field.endpoints;
  }
}

TEST(FieldTableTest, ARefusedFieldIs400ByItsNameUnlessItIsNeutral) {
  ApiServer server;
  for (const Field& field : fields()) {
    for (const BodyPath& path : kBodyPaths) {
      if (kind_of(field) != FieldKind::kRefused || (field.endpoints & path.endpoint) == 0) continue;
      SCOPED_TRACE(std::string(path.path) + " " + field.name);
      const auto status = [&](const OrderedJson& value) {
        return server.post(path.path, with(path.body, {{field.name, value}}).dump());
      };
      expect_error(status({{"any", {"thing", 0.25}}}), 400, field.name, nullptr, field.note);
      EXPECT_EQ(status(nullptr).status, 200);
      const OrderedJson neutral = neutral_values(field);
      for (const OrderedJson& value : neutral) {
        EXPECT_EQ(status(value).status, 200) << value;
      }
    }
  }
}

TEST(FieldTableTest, HarmlessFieldsChangeNothing) {
  ApiServer server;
  for (const BodyPath& path : std::span(kBodyPaths).first(3)) {
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

TEST(FieldTableTest, AnEmptyListOfToolsIsRefusedExceptInResponses) {
  ApiServer server;
  const OrderedJson none = {{"tools", OrderedJson::array()}};
  expect_error(server.post("/v1/chat/completions", with(kTalk, none).dump()), 400, "tools", nullptr,
               "at least one tool");
  EXPECT_EQ(server.post("/v1/responses", with(kBodyPaths[2].body, none).dump()).status, 200);
}

TEST(FieldTableTest, ARequestMayHaveSixtyFourStopStrings) {
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
  for (const BodyPath& path : kBodyPaths) {
    const OrderedJson body =
        with(path.body, {{"no_such_field", {1, 2}}, {"an,odd\none", 1}, {"", 1}});
    EXPECT_EQ(header(server.post(path.path, body.dump()), "X-Ignored-Fields"),
              "no_such_field, an?odd?one, ?")
        << path.path;
  }
  EXPECT_EQ(server.api().unknown_fields(), 21);
  const http::Response stream =
      server.post("/v1/completions", with(kStory, {{"stream", true}, {"odd", 1}}).dump());
  EXPECT_EQ(header(stream, "X-Ignored-Fields"), "odd");
}

TEST(FieldTableTest, MoreUnknownFieldsThanFitInAHeaderAreRefused) {
  ApiServer server;
  OrderedJson body = kStory;
  for (int i = 0; i < 64; ++i) body["odd_" + std::to_string(i)] = i;
  EXPECT_EQ(server.post("/v1/completions", body.dump()).status, 200);
  body["one_more"] = 1;
  expect_error(server.post("/v1/completions", body.dump()), 400, "one_more", nullptr, "found 65");
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

TEST(FieldTableTest, AFieldThatNoTableHasIsAnErrorIfSoConfigured) {
  ApiServer server({}, {}, {.unknown_fields = "error"});
  for (const BodyPath& path : kBodyPaths) {
    EXPECT_EQ(server.post(path.path, path.body.dump()).status, 200) << path.path;
    expect_error(server.post(path.path, with(path.body, {{"odd", nullptr}}).dump()), 400, "odd",
                 nullptr, "no such field");
  }
}

TEST(FieldTableTest, NoRandomFieldIsLostOnAnyEndpoint) {
  constexpr unsigned kSeed = 1;
  SCOPED_TRACE(fmt::format("seed {}", kSeed));
  std::mt19937 random(kSeed);
  FieldsCheck check;
  constexpr int kBodies = 4'000;
  for (int i = 0; i < kBodies; ++i) {
    std::string bytes(random() % 60 + 5, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    EXPECT_EQ(check.fault_of(bytes), "") << "body " << i;
  }
  EXPECT_GT(check.taken(), kBodies / 10);
}

}  // namespace
}  // namespace lockstep::openai
