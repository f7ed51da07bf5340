// SPDX-License-Identifier: Apache-2.0
#include "coordinator/output/calls/schema_type.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

constexpr int64_t kBudget = 10'000;

SchemaType type_of(const OrderedJson& schema, const OrderedJson& root = {}) {
  int64_t budget = kBudget;
  return {schema, root, &budget};
}

std::string json_of(const char* schema, std::string_view text, const char* root = "{}") {
  return type_of(OrderedJson::parse(schema), OrderedJson::parse(root)).json_of(text);
}

TEST(SchemaTypeTest, AStringIsItsTextEvenIfItLooksLikeAnotherType) {
  for (const char* schema : {R"({"type": "string"})", R"({"enum": ["a", "b"]})",
                             R"({"anyOf": [{"type": "string"}, {"const": "x"}]})"}) {
    EXPECT_TRUE(type_of(OrderedJson::parse(schema)).is_string());
    EXPECT_EQ(json_of(schema, "0042"), "\"0042\"");
    EXPECT_EQ(json_of(schema, "null"), "\"null\"");
    EXPECT_EQ(json_of(schema, " {\"a\": 1}\n"), "\" {\\\"a\\\": 1}\\n\"");
    EXPECT_EQ(json_of(schema, "\"q\""), "\"\\\"q\\\"\"");
    EXPECT_EQ(json_of(schema, ""), "\"\"");
  }
}

TEST(SchemaTypeTest, AValueThatFitsNoTypeStaysAString) {
  EXPECT_EQ(json_of(R"({"type": "integer"})", " 12\n"), "12");
  EXPECT_EQ(json_of(R"({"type": "integer"})", "3.0"), "3.0");
  EXPECT_EQ(json_of(R"({"type": "integer"})", "3.5"), "\"3.5\"");
  EXPECT_EQ(json_of(R"({"type": "integer"})", "many"), "\"many\"");
  EXPECT_EQ(json_of(R"({"type": "integer"})", "12345678901234567890123"),
            "12345678901234567890123");
  EXPECT_EQ(json_of(R"({"type": "number"})", "1e3"), "1e3");
  EXPECT_EQ(json_of(R"({"type": "number"})", "3"), "3");
  EXPECT_EQ(json_of(R"({"type": "number"})", "1e999"), "\"1e999\"");
  EXPECT_EQ(json_of(R"({"type": "boolean"})", "True"), "true");
  EXPECT_EQ(json_of(R"({"type": "boolean"})", "1"), "\"1\"");
  EXPECT_EQ(json_of(R"({"type": "array"})", "[1, \"a\"]"), "[1, \"a\"]");
  EXPECT_EQ(json_of(R"({"type": "object"})", "{'a': True}"), "{\"a\": true}");
  EXPECT_EQ(json_of(R"({"type": "object"})", "{a}"), "\"{a}\"");
  EXPECT_EQ(json_of(R"({"type": "object"})", "[]"), "\"[]\"");
}

TEST(SchemaTypeTest, TheFirstTypeThatFitsIsUsed) {
  const char* either = R"({"anyOf": [{"type": "string"}, {"type": "null"}]})";
  EXPECT_EQ(json_of(either, "null"), "null");
  EXPECT_EQ(json_of(either, "None"), "null");
  EXPECT_EQ(json_of(either, "5"), "\"5\"");
  EXPECT_EQ(json_of(either, "\"a\""), "\"\\\"a\\\"\"");
  EXPECT_EQ(json_of(R"({"type": ["integer", "null"]})", "null"), "null");
  EXPECT_EQ(json_of(R"({"type": ["string", "integer"]})", "5"), "5");
  EXPECT_EQ(json_of(R"({"oneOf": [{"items": {}}, {"properties": {}}]})", "{}"), "{}");
}

// The schemas have references that double the work, paths that lead in a circle, long lists, and
// objects of many members that are searched again and again.
TEST(SchemaTypeTest, HostileSchemasAreReadInBoundedTime) {
  constexpr int64_t kMembers = 7'000;
  OrderedJson root = {{"a", {{"anyOf", OrderedJson::array()}}}};
  for (int i = 0; i < 1000; ++i) root["a"]["anyOf"].push_back({{"$ref", "#/a"}});
  for (int64_t i = 0; i < kMembers; ++i) root["large"]["m" + std::to_string(i)] = 0;
  std::string path = "#";
  for (int i = 0; i < 2000; ++i) path += "/a";
  OrderedJson circles = {{"anyOf", OrderedJson::array()}}, searches = circles;
  for (int i = 0; i < 1000; ++i) circles["anyOf"].push_back({{"$ref", path}});
  for (int i = 0; i < 1000; ++i) searches["anyOf"].push_back({{"$ref", "#/large"}});
  OrderedJson names = OrderedJson::array();
  for (int i = 0; i < 100'000; ++i) names.push_back(std::to_string(i));
  for (const OrderedJson& schema :
       {OrderedJson{{"$ref", "#/a"}}, circles, searches, OrderedJson{{"enum", names}}}) {
    int64_t budget = kBudget;
    const SchemaType type(schema, root, &budget);
    EXPECT_LT(budget, 0);
    EXPECT_GE(budget, -20 * kMembers - std::ssize(names)) << "searches after the end";
    EXPECT_EQ(type.is_known(), schema.contains("enum"));
  }
}

TEST(SchemaTypeTest, AValueWithoutATypeIsReadAsJsonIfItIsJson) {
  for (const char* schema : {"{}", "null", "5", R"({"type": "date"})", R"({"$ref": "#/none"})"}) {
    EXPECT_EQ(json_of(schema, "5"), "5");
    EXPECT_EQ(json_of(schema, "[1]"), "[1]");
    EXPECT_EQ(json_of(schema, "a b"), "\"a b\"");
  }
}

TEST(SchemaTypeTest, ReferencesAreFollowed) {
  const char* root = R"({"$defs": {"n": {"type": "integer"}, "m": {"$ref": "#/$defs/n"},
                         "loop": {"$ref": "#/$defs/loop"}}})";
  EXPECT_EQ(json_of(R"({"$ref": "#/$defs/m"})", "a", root), "\"a\"");
  EXPECT_EQ(json_of(R"({"$ref": "#/$defs/m"})", "5", root), "5");
  EXPECT_EQ(json_of(R"({"$ref": "#/$defs/loop"})", "5", root), "5");
}

TEST(FunctionTypesTest, TypesTakeLittleMoreMemoryThanTheToolsTexts) {
  std::string many, lists;  // A parsed list takes some 80 bytes.
  for (int i = 0; i < 20'000; ++i) many += fmt::format(R"("{}":{{"const":1}},)", i);
  for (int i = 0; i < 20'000; ++i) lists += "[],";
  many.pop_back(), lists.pop_back();
  std::vector<std::string> tools;
  int64_t text = 0;
  for (const std::string& properties : {many, R"("a":{"enum":[)" + lists + "]}"}) {
    tools.push_back(
        fmt::format(R"({{"function":{{"name":"f{}","parameters":{{"properties":{{{}}}}}}}}})",
                    tools.size(), properties));
    text += std::ssize(tools.back());
  }
  const FunctionTypes types(tools);
  EXPECT_LE(types.bytes(), text * 5 / 4);
  EXPECT_EQ(types.type_of("f0", "19999").json_of("a"), "\"a\"");
  EXPECT_TRUE(types.type_of("f0", "0").is_known());
  EXPECT_EQ(types.type_of("f1", "a").json_of("[1]"), "[1]");
}

// Only a fixed number of members are compared, in all tools together.
TEST(FunctionTypesTest, AToolThatUsesUpTheBudgetHasUnknownTypes) {
  std::string large, choices;
  for (int i = 0; i < 7'000; ++i) large += fmt::format(R"("m{}":0,)", i);
  for (int i = 0; i < 170; ++i) choices += R"({"$ref":"#/large"},)";
  large.pop_back(), choices.pop_back();
  const auto tool = [&](const char* name, const std::string& any_of) {
    return fmt::format(R"({{"function":{{"name":"{}","parameters":{{"large":{{{}}},"properties":)"
                       R"({{"a":{{"anyOf":[{}{{"type":"string"}}]}}}}}}}}}})",
                       name, large, any_of);
  };
  const std::string tools[] = {tool("f", ""), tool("g", choices + ","), tool("h", "")};
  const FunctionTypes types(tools);
  EXPECT_TRUE(types.type_of("f", "a").is_string());
  EXPECT_FALSE(types.type_of("g", "a").is_known());
  EXPECT_FALSE(types.type_of("h", "a").is_known());
}

TEST(FunctionTypesTest, TypesAreFoundByFunctionAndParameter) {
  const std::string tools[] = {
      R"({"function": {"name": "f", "parameters": {"properties":
          {"b": {"type": "string"}, "a": {"type": "integer"}, "aa": {}, "": {"const": 1.5}}}}})",
      R"({"function": {"name": "g"}})", "no JSON", "[]", R"({"function": 5})"};
  const FunctionTypes types(tools);
  EXPECT_TRUE(types.type_of("f", "b").is_string());
  EXPECT_EQ(types.type_of("f", "a").json_of("x"), "\"x\"");
  EXPECT_TRUE(types.type_of("f", "").is_known());
  for (const char* unknown : {"aa", "c", "B"}) {
    EXPECT_FALSE(types.type_of("f", unknown).is_known());
  }
  EXPECT_FALSE(types.type_of("g", "a").is_known());
  EXPECT_EQ(types.type_of("h", "a").json_of("1"), "1");
}

}  // namespace
}  // namespace lockstep
