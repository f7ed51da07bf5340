// SPDX-License-Identifier: Apache-2.0
// Compares the hand-written scanners with the regex engine that has the same pattern.
#include "coordinator/text/regex/split_scanners.h"

#include <random>

#include "coordinator/text/regex/regex.h"
#include "coordinator/text/unicode/unicode.h"
#include "gtest/gtest.h"

namespace lockstep {
namespace {

// The ends of all pieces as text, so that two ways to split can be compared as strings.
std::string piece_ends(const Regex& regex, std::string_view text) {
  const auto spans = regex.find_all(text);
  EXPECT_TRUE(spans.ok()) << spans.status();
  std::string ends;
  for (const Span& span : *spans) ends += std::to_string(span.end) + (span.is_match ? " " : "! ");
  return ends;
}

std::string piece_ends(Scanner scanner, std::string_view text) {
  std::string ends;
  for (size_t at = 0; at < text.size();) {
    const size_t end = scanner(text, at);
    EXPECT_GT(end, at);
    if (end <= at) break;
    at = end;
    ends += std::to_string(at) + " ";
  }
  return ends;
}

class ScannerTest : public testing::TestWithParam<std::string_view> {
 protected:
  void SetUp() override {
    scanner_ = find_scanner(GetParam());
    ASSERT_NE(scanner_, nullptr);
    auto regex = Regex::compile(GetParam());
    ASSERT_TRUE(regex.ok()) << regex.status();
    regex_ = *regex;
  }
  Scanner scanner_ = nullptr;
  std::optional<Regex> regex_;
};

TEST_P(ScannerTest, AgreesWithTheEngineOnEveryCodePoint) {
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string text = "a";
    append_utf8(c, &text);
    text += "1 ";
    append_utf8(c, &text);
    text += "'";
    append_utf8(c, &text);
    ASSERT_EQ(piece_ends(scanner_, text), piece_ends(*regex_, text))
        << "U+" << std::hex << uint32_t{c};
  }
}

TEST_P(ScannerTest, AgreesWithTheEngineOnRandomText) {
  static constexpr char32_t kChosen[] =
      U"'''sStTrReEvVmMlLdD\u017F  \n\n\r\t\u00A0\u3000\u180E\u2028aZ09.,!-\u0301é中²½٣";
  constexpr size_t kChosenCount = std::size(kChosen) - 1;
  std::mt19937 random(11);
  for (int round = 0; round < 20'000; ++round) {
    std::string text;
    const size_t length = 1 + random() % 30;
    for (size_t i = 0; i < length; ++i) {
      char32_t c = kChosen[random() % kChosenCount];
      if (random() % 8 == 0) c = random() % 0x3000;
      if (random() % 16 == 0) c = random() % 0x110000;
      if (c >= 0xD800 && c < 0xE000) c = '\n';
      append_utf8(c, &text);
    }
    ASSERT_EQ(piece_ends(scanner_, text), piece_ends(*regex_, text)) << text;
  }
}

INSTANTIATE_TEST_SUITE_P(Known, ScannerTest,
                         testing::Values(kGpt2Pattern, kLlama3Pattern, kQwen2Pattern),
                         [](const auto& test) {
                           return test.param == kGpt2Pattern     ? "Gpt2"
                                  : test.param == kLlama3Pattern ? "Llama3"
                                                                 : "Qwen2";
                         });

}  // namespace
}  // namespace lockstep
