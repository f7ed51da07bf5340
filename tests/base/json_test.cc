// SPDX-License-Identifier: Apache-2.0
// Parsing untrusted JSON: limits, duplicates, positions in error messages, typed members.
#include "base/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <functional>

#include "base/system/clock.h"

namespace lockstep {
namespace {

using testing::HasSubstr;

std::string problem(std::string_view text, const JsonLimits& limits = {}) {
  return message_of(parse_json(text, "config.json", limits).status());
}

TEST(JsonTest, ParsingAgreesWithNlohmann) {
  const std::string text =
      R"({"a": [1, -2, 3.5, true, null, {"b": []}], "c": {"d": "\u00e9", "e": {}}, "f": 1e3})";
  const auto json = parse_json(text, "x");
  ASSERT_TRUE(json.ok()) << json.status();
  EXPECT_EQ(*json, Json::parse(text));
}

TEST(JsonTest, ScalarsAloneParse) {
  EXPECT_EQ(*parse_json("17", "x"), Json(17));
  EXPECT_EQ(*parse_json(" \"a\" ", "x"), Json("a"));
}

TEST(JsonTest, ErrorsNameTheTextAndTheByte) {
  EXPECT_THAT(problem(R"({"a": nope})"), HasSubstr("config.json: not valid JSON: "));
  EXPECT_THAT(problem(R"({"a": 1e400})"), HasSubstr("not valid JSON: number overflow"));
  EXPECT_THAT(problem(R"({"a": nope})"), HasSubstr("(at byte 8)"));
  EXPECT_THAT(problem(""), HasSubstr("(at byte 0)"));
  EXPECT_THAT(problem(R"({"a": 1} x)"), HasSubstr("(at byte 10)"));
}

TEST(JsonTest, ErrorsAreOneLineOfPrintableText) {
  for (const std::string& bad : {std::string("{\"\xff\xfe\": 1}"), std::string("[\n\n1,\n\"\t\"]"),
                                 "[\"" + std::string(100000, 'x')}) {
    const std::string message = problem(bad);
    EXPECT_LT(message.size(), 300u);
    for (const char c : message) EXPECT_TRUE(c >= ' ' && c <= '~') << message;
  }
}

TEST(JsonTest, InvalidUtf8IsRefused) {
  EXPECT_FALSE(parse_json("{\"a\xc3(\": 1}", "x").ok());
  EXPECT_FALSE(parse_json("\"\xed\xa0\x80\"", "x").ok());  // A half of a UTF-16 pair.
  EXPECT_FALSE(parse_json(R"("\ud800")", "x").ok());
}

TEST(JsonTest, SyntaxThatJsonDoesNotHaveIsRefused) {
  for (const char* bad : {"{'a': 1}", "[1,]", "{\"a\": 1,}", "NaN", "[Infinity]", "// c\n1", "01",
                          "1e999", "{", "]", "[1}", "tru"}) {
    EXPECT_FALSE(parse_json(bad, "x").ok()) << bad;
  }
}

TEST(JsonTest, DepthIsBounded) {
  EXPECT_TRUE(parse_json("[[[]]]", "x", {.depth = 3}).ok());
  EXPECT_THAT(problem("[[[[]]]]", {.depth = 3}),
              HasSubstr("more than 3 nested objects and arrays (at byte 4)"));
  EXPECT_FALSE(parse_json(std::string(1'000'000, '['), "x").ok());
  std::string objects;
  for (int i = 0; i < 100; ++i) objects += "{\"a\":";
  EXPECT_THAT(problem(objects), HasSubstr("more than 64"));
}

TEST(JsonTest, ValuesAreBounded) {
  EXPECT_TRUE(parse_json("[1,2,3]", "x", {.values = 4}).ok());
  EXPECT_THAT(problem("[1,2,3,4]", {.values = 4}), HasSubstr("more than 4 values and keys"));
  EXPECT_THAT(problem(R"({"a":1,"b":2})", {.values = 4}), HasSubstr("more than 4"));
}

TEST(JsonTest, DuplicateKeysAreRefusedAtEveryDepth) {
  EXPECT_THAT(problem(R"({"a": 1, "b": 2, "a": 3})"), HasSubstr("the key \"a\" appears twice"));
  EXPECT_THAT(problem(R"({"x": [{"a": {}, "a": {}}]})"), HasSubstr("the key \"a\" appears twice"));
  EXPECT_TRUE(parse_json(R"({"a": {"a": 1}, "b": {"a": 1}})", "x").ok());
  // These are two spellings of the same key.
  EXPECT_THAT(problem(R"({"a": 1, "\u0061": 3})"), HasSubstr("appears twice"));
}

TEST(JsonTest, TheLastDuplicateWinsIfDuplicatesAreAllowed) {
  const auto json = parse_json(R"({"a": {"b": 1}, "a": 3})", "x", {.reject_duplicate_keys = false});
  ASSERT_TRUE(json.ok());
  EXPECT_EQ(*json, (Json{{"a", 3}}));
}

TEST(JsonTest, OrderedObjectsKeepTheOrderOfTheirKeys) {
  const std::string text = R"({"b":1,"a":{"z":[],"y":null},"c":2})";
  const auto ordered = parse_ordered_json(text, "text");
  ASSERT_TRUE(ordered.ok()) << ordered.status();
  EXPECT_EQ(ordered->dump(), text);
  EXPECT_FALSE(parse_ordered_json(R"({"b":1,"a":2,"b":3})", "text").ok());
  const auto last =
      parse_ordered_json(R"({"b":1,"a":2,"b":3})", "text", {.reject_duplicate_keys = false});
  ASSERT_TRUE(last.ok()) << last.status();
  EXPECT_EQ(last->dump(), R"({"b":3,"a":2})");
}

// absl's hash (20220623) of these 32 bytes is the same for every number and every seed: its second
// multiplication is a rotation, so the last eight bytes cancel the ones that have the number.
std::string colliding_key(uint64_t number) {
  uint64_t word = 0;
  for (int byte = 0; byte < 8; ++byte) word |= (number >> (6 * byte) & 63) << (8 * byte + 1);
  const std::array<uint64_t, 4> words = {0x13198A2E03707344 ^ uint64_t{1} << 47, word, 0,
                                         std::rotl(word, 47)};
  return {reinterpret_cast<const char*>(words.data()), sizeof(words)};
}

// The time of this thread to parse an object with these keys, in ns: the best of three.
int64_t best_parse_ns(const std::function<std::string(uint64_t)>& key_of) {
  std::string text = "{";
  for (uint64_t i = 0; i < 10'000; ++i) text += Json(key_of(i)).dump() + ":0,";
  text.back() = '}';
  int64_t best = INT64_MAX;
  for (int run = 0; run < 3; ++run) {
    const int64_t begin = thread_time_ns();
    EXPECT_TRUE(parse_ordered_json(text, "x").ok());
    best = std::min(best, thread_time_ns() - begin);
  }
  return best;
}

TEST(JsonTest, KeysThatCollideInOtherHashesTakeNoMoreTime) {
  const int64_t others = best_parse_ns([](uint64_t i) {
    std::string key = colliding_key(i);
    key[17] = static_cast<char>(i % 101);
    return key;
  });
  EXPECT_LT(best_parse_ns(colliding_key), 5 * others);
}

TEST(JsonTest, MembersAreReadByType) {
  const Json json = *parse_json(R"({"i": -3, "b": true, "d": 1.5, "s": "t", "n": null})", "x");
  EXPECT_EQ(*get_int(json, "i"), -3);
  EXPECT_EQ(*get_bool(json, "b"), true);
  EXPECT_EQ(*get_double(json, "d"), 1.5);
  EXPECT_EQ(*get_double(json, "i"), -3.0);
  EXPECT_EQ(*get_string(json, "s"), "t");
}

TEST(JsonTest, MissingAndNullMembersGiveTheFallback) {
  const Json json = *parse_json(R"({"n": null})", "x");
  for (const char* key : {"n", "gone"}) {
    EXPECT_EQ(*get_int(json, key, 7), 7);
    EXPECT_EQ(*get_bool(json, key, true), true);
    EXPECT_EQ(*get_double(json, key, 0.5), 0.5);
    EXPECT_EQ(*get_string(json, key, "d"), "d");
    EXPECT_EQ(message_of(get_int(json, key).status()),
              std::string(key) + ": must be an integer, found nothing");
    EXPECT_FALSE(get_bool(json, key).ok());
    EXPECT_FALSE(get_double(json, key).ok());
    EXPECT_FALSE(get_string(json, key).ok());
  }
}

TEST(JsonTest, WrongTypesAreErrorsEvenWithAFallback) {
  const Json json =
      *parse_json(R"({"s": "4096", "f": 2.5, "i": 1, "o": {}, "u": 18446744073709551615})", "x");
  EXPECT_EQ(message_of(get_int(json, "s", 1).status()),
            "s: must be an integer, found a string (\"4096\")");
  EXPECT_EQ(message_of(get_int(json, "f").status()),
            "f: must be an integer, found a number that is not an integer (2.5)");
  EXPECT_EQ(message_of(get_int(json, "u").status()),
            "u: must be an integer below 2^63, found an integer (18446744073709551615)");
  EXPECT_EQ(message_of(get_bool(json, "i", true).status()),
            "i: must be true or false, found an integer (1)");
  EXPECT_EQ(message_of(get_double(json, "s", 1.0).status()),
            "s: must be a number, found a string (\"4096\")");
  EXPECT_EQ(message_of(get_string(json, "o", "").status()), "o: must be a string, found an object");
  EXPECT_THAT(message_of(get_int(Json::array(), "k", 1).status()), HasSubstr("found an array"));
}

}  // namespace
}  // namespace lockstep
