// SPDX-License-Identifier: Apache-2.0
#include "coordinator/output/calls/schema_type.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

std::string json_of(const char* schema, std::string_view text, const char* root = "{}") {
  return SchemaType(OrderedJson::parse(schema), OrderedJson::parse(root)).json_of(text);
}

TEST(SchemaTypeTest, AStringIsItsTextEvenIfItLooksLikeAnotherType) {
  for (const char* schema : {R"({"type": "string"})", R"({"enum": ["a", "b"]})",
                             R"({"anyOf": [{"type": "string"}, {"const": "x"}]})"}) {
    EXPECT_TRUE(SchemaType(OrderedJson::parse(schema), {}).is_string());
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

// The schemas have references that double the work, paths that lead in a circle, and long lists.
TEST(SchemaTypeTest, HostileSchemasAreReadInBoundedTime) {
  OrderedJson root = {{"a", {{"anyOf", OrderedJson::array()}}}};
  for (int i = 0; i < 1000; ++i) root["a"]["anyOf"].push_back({{"$ref", "#/a"}});
  EXPECT_EQ(SchemaType({{"$ref", "#/a"}}, root).json_of("5"), "5");
  OrderedJson deep = {{"anyOf", OrderedJson::array()}};
  std::string path = "#";
  for (int i = 0; i < 2000; ++i) path += "/a";
  for (int i = 0; i < 1000; ++i) deep["anyOf"].push_back({{"$ref", path}});
  EXPECT_EQ(SchemaType(deep, root).json_of("5"), "5");
  OrderedJson names = OrderedJson::array();
  for (int i = 0; i < 100'000; ++i) names.push_back(std::to_string(i));
  EXPECT_EQ(SchemaType({{"enum", names}}, root).json_of("5"), "\"5\"");
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

TEST(FunctionSchemasTest, SchemasAreKeptAsTexts) {
  std::string values;  // A parsed list takes some 80 bytes.
  for (int i = 0; i < 20'000; ++i) values += "[],";
  values.pop_back();
  std::vector<std::string> tools;
  tools.reserve(25);
  for (int i = 0; i < 25; ++i) {
    tools.push_back(fmt::format(
        R"({{"function":{{"name":"f{}","parameters":{{"properties":{{"a":{{"enum":[{}]}}}}}}}}}})",
        i, values));
  }
  const FunctionSchemas schemas(tools);
  const auto text = std::ssize(tools[0]);
  EXPECT_GE(schemas.bytes(), 25 * text);
  EXPECT_LE(schemas.bytes(), (25 + 32) * (text + 1));
  EXPECT_EQ(schemas.types_of("f7").of("a").json_of("[1]"), "[1]");
}

TEST(FunctionSchemasTest, TypesAreFoundByFunctionAndParameter) {
  const std::string tools[] = {
      R"({"function": {"name": "f", "parameters": {"properties": {"a": {"type": "string"}}}}})",
      R"({"function": {"name": "g"}})", "no JSON", "[]", R"({"function": 5})"};
  const FunctionSchemas schemas(tools);
  EXPECT_TRUE(schemas.types_of("f").of("a").is_string());
  EXPECT_FALSE(schemas.types_of("f").of("b").is_string());
  EXPECT_FALSE(schemas.types_of("g").of("a").is_string());
  EXPECT_EQ(schemas.types_of("h").of("a").json_of("1"), "1");
}

}  // namespace
}  // namespace lockstep
