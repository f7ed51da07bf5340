// SPDX-License-Identifier: Apache-2.0
// Outputs of published models and their expected parts. Each output is parsed whole, cut at each
// byte, cut at random bytes, and with each tag as one piece.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/json.h"
#include "base/system/file.h"
#include "coordinator/output/calls/json_text.h"
#include "tests/coordinator/output/parsing.h"
#include "tests/support/files/test_data.h"

namespace lockstep {
namespace {

// `wanted` is a text, texts in this order with blanks between them, or null for anything.
bool is_text(const OrderedJson& wanted, const std::string& found) {
  if (wanted.is_null()) return true;
  if (wanted.is_string()) return trimmed(found) == trimmed(wanted.get<std::string>());
  std::string_view rest = found;
  for (const OrderedJson& part : wanted) {
    const std::string text(trimmed(part.get<std::string>()));
    rest = trimmed(rest);
    if (!rest.starts_with(text)) return false;
    rest.remove_prefix(text.size());
  }
  return trimmed(rest).empty();
}

bool are_calls(const OrderedJson& wanted, const Gathered& found) {
  if (wanted.is_null()) return true;
  if (wanted.size() != found.calls.size()) return false;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const OrderedJson& arguments = wanted[i]["arguments"];
    const absl::StatusOr<Json> read = parse_json(found.calls[i].second, "");
    const Json expected =
        parse_json(arguments.is_string() ? arguments.get<std::string>() : arguments.dump(), "")
            .value();
    if (wanted[i]["name"] != found.calls[i].first || !read.ok() || *read != expected) return false;
  }
  return true;
}

bool is_outcome(const OrderedJson& wanted, const Gathered& found) {
  return is_text(wanted["reasoning"], found.thought) && is_text(wanted["content"], found.content) &&
         are_calls(wanted["calls"], found);
}

std::vector<std::string> tags_of(const OrderedJson& family) {
  std::vector<std::string> tags = family["special"];
  for (const OrderedJson& token : family["tokens"]) tags.push_back(token);
  return tags;
}

// The text in pieces, with each tag as one piece.
std::vector<std::string_view> by_tags(std::string_view text, const std::vector<std::string>& tags) {
  std::vector<std::string_view> pieces;
  for (size_t at = 0; at < text.size();) {
    const std::string_view rest = text.substr(at);
    const auto tag =
        std::ranges::find_if(tags, [&](const std::string& one) { return rest.starts_with(one); });
    pieces.push_back(rest.substr(0, tag == tags.end() ? 1 : tag->size()));
    at += pieces.back().size();
  }
  return pieces;
}

struct Checked {
  int passed = 0;
  int all = 0;
};

void check_case(const OrderedJson& file, const OrderedJson& one, Checked* checked) {
  const std::string name = one["family"].get<std::string>() + ": " + one["name"].get<std::string>();
  SCOPED_TRACE(name);
  const OrderedJson& family = file["families"][one["family"].get<std::string>()];
  const Format* format = find_format(one["family"].get<std::string>());
  ASSERT_NE(format, nullptr);
  std::vector<std::string> tools;
  const OrderedJson& set =
      one["tools"].is_string() ? file["tool_sets"][one["tools"].get<std::string>()] : one["tools"];
  for (const OrderedJson& tool : set) tools.push_back(tool.dump());
  const bool is_cut = one["finish"] == "length";
  const OutputOptions options = {
      .thoughts = format->has_thoughts() ? format : nullptr,
      .place = one["opened"] == true ? ThoughtPlace::kWithin : ThoughtPlace::kBefore,
      .tools = format,
      .functions = std::make_shared<const FunctionTypes>(tools)};
  const std::string answer = one["answer"];
  const Gathered whole = parse(options, {answer}, is_cut);
  bool is_right = is_outcome(one, whole);
  for (const OrderedJson& other : one.value("either", OrderedJson::array())) {
    OrderedJson outcome = one;
    outcome.update(other);
    is_right |= is_outcome(outcome, whole);
  }
  EXPECT_TRUE(is_right) << answer << "\n-> " << whole.shown();
  const std::vector<std::string> tags = tags_of(family);
  for (const std::string& tag : tags) {
    const bool leaks = whole.content.find(tag) != std::string::npos;
    EXPECT_TRUE(!leaks || one["content"].dump().find(tag) != std::string::npos) << tag;
  }
  auto cuts = all_cuts(answer);
  cuts.push_back(by_tags(answer, tags));
  for (const auto& pieces : cuts) ASSERT_EQ(parse(options, pieces, is_cut).shown(), whole.shown());
  ++checked->all;
  checked->passed += is_right ? 1 : 0;
}

void check_file(const std::filesystem::path& path) {
  const std::string text = read_file(path, 1 << 26).value();
  const OrderedJson file = parse_ordered_json(text, path.string()).value();
  Checked checked;
  for (const OrderedJson& one : file["cases"]) check_case(file, one, &checked);
  EXPECT_EQ(checked.passed, checked.all);
}

// A case of tests/data/parsers/cases.json: {"format", "about", "text", "expected"}. With "opened"
// the prompt has begun a thought, with "closed" it has ended one, and with "cut" the output was
// truncated.
void check_own_case(const OrderedJson& one, const OutputOptions& all) {
  SCOPED_TRACE(one["format"].get<std::string>() + ": " + one["about"].get<std::string>());
  const Format* format = find_format(one["format"].get<std::string>());
  ASSERT_NE(format, nullptr);
  OutputOptions options = all;
  options.thoughts = format->has_thoughts() ? format : nullptr;
  options.tools = format->has_calls() ? format : nullptr;
  if (one.contains("opened")) options.place = ThoughtPlace::kWithin;
  if (one.contains("closed")) options.place = ThoughtPlace::kAfter;
  const std::string text = one["text"], expected = one["expected"];
  EXPECT_EQ(parse(options, {text}, one.contains("cut")).shown(), expected) << text;
  for (const auto& pieces : all_cuts(text)) {
    ASSERT_EQ(parse(options, pieces, one.contains("cut")).shown(), expected) << text;
  }
}

TEST(CasesTest, TextsOfThisRepositoryAreParsedAsExpected) {
  const std::filesystem::path path = test_data("tests/data/parsers/cases.json");
  const OrderedJson file =
      parse_ordered_json(read_file(path, 1 << 26).value(), path.string()).value();
  std::vector<std::string> tools;
  for (const OrderedJson& tool : file["tools"]) tools.push_back(tool.dump());
  const OutputOptions options = {.functions = std::make_shared<const FunctionTypes>(tools)};
  std::map<std::string, int> cases;
  for (const OrderedJson& one : file["cases"]) {
    check_own_case(one, options);
    ++cases[one["format"]];
  }
  for (const Format& format : formats()) {
    for (const std::string_view name : format.names) {
      EXPECT_TRUE(name.empty() || cases[std::string(name)] >= (format.has_calls() ? 3 : 1)) << name;
    }
  }
}

TEST(CasesTest, TextsOfTheTestDataAreParsedAsExpected) {
  LOCKSTEP_NEEDS_TEST_DATA("parsers/cases.json");
  check_file(test_data("parsers/cases.json"));
}

}  // namespace
}  // namespace lockstep
