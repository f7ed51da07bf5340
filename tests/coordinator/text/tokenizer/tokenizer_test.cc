// SPDX-License-Identifier: Apache-2.0
// Compares ids and texts with the reference's: for our small tokenizers always, for published ones
// if their files are present.
#include "coordinator/text/tokenizer/tokenizer.h"

#include <random>

#include "coordinator/text/detokenizer/detokenizer.h"
#include "coordinator/text/unicode/unicode.h"
#include "gtest/gtest.h"
#include "tests/coordinator/text/test_data.h"
#include "tests/support/processor_time.h"

namespace lockstep {
namespace {

using nlohmann::json;

// The text that a stream of these ids shows; every piece must be UTF-8 by itself.
std::string streamed(const Tokenizer& tokenizer, const std::vector<int32_t>& ids,
                     bool continues = false) {
  Detokenizer detokenizer(&tokenizer, continues);
  std::string text;
  const auto append = [&](const std::string& piece) {
    EXPECT_EQ(first_invalid_utf8(piece), std::nullopt);
    text += piece;
  };
  for (const int32_t id : ids) append(detokenizer.push(id));
  append(detokenizer.finish());
  return text;
}

void expect_ids(const Tokenizer& tokenizer, const json& test, const char* key,
                const EncodeOptions& options) {
  if (!test.contains(key)) return;
  const auto ids = tokenizer.encode(test["text"].get<std::string>(), options);
  ASSERT_TRUE(ids.ok()) << ids.status();
  EXPECT_EQ(*ids, test[key].get<std::vector<int32_t>>()) << key << " of " << test["text"];
}

class OwnTokenizerTest : public testing::TestWithParam<const char*> {};

TEST_P(OwnTokenizerTest, AgreesWithTheReference) {
  const auto folder = own_tokenizer(GetParam());
  const auto tokenizer = load_tokenizer(folder);
  ASSERT_NE(tokenizer, nullptr);
  const json cases = read_json(folder / "cases.json")["cases"];
  ASSERT_GT(cases.size(), 50u);
  for (const json& test : cases) {
    expect_ids(*tokenizer, test.contains("text") ? test : json::object(), "ids", {});
    expect_ids(*tokenizer, test, "plain", {.add_special = false});
    expect_ids(*tokenizer, test, "as_text", {.add_special = false, .parse_special = false});
    const std::vector<int32_t> ids = test["ids"];
    EXPECT_EQ(tokenizer->decode(ids), test["decoded"]) << test;
    EXPECT_EQ(tokenizer->decode(ids, false), test["decoded_all"]) << test;
    EXPECT_EQ(streamed(*tokenizer, ids), test["decoded"]) << test;
  }
}

INSTANTIATE_TEST_SUITE_P(All, OwnTokenizerTest,
                         testing::Values("byte_level", "sentencepiece_like", "llama3_like",
                                         "qwen2_like"),
                         [](const auto& test) { return std::string(test.param); });

class PublishedTokenizerTest : public testing::TestWithParam<const char*> {};

TEST_P(PublishedTokenizerTest, AgreesWithTheReference) {
  const auto folder = test_data("tokenizers") / GetParam();
  LOCKSTEP_NEEDS_TEST_DATA(folder);
  const auto tokenizer = load_tokenizer(folder);
  ASSERT_NE(tokenizer, nullptr);
  const json tokens = read_json(folder / "tokens.json");
  ASSERT_FALSE(tokens["cases"].empty());
  for (const json& test : tokens["cases"]) {
    expect_ids(*tokenizer, test, "ids", {.add_special = false});
    expect_ids(*tokenizer, test, "with_special", {});
    const std::vector<int32_t> ids = test["ids"];
    const json& text = test.contains("decoded") ? test["decoded"] : test["text"];
    // The expected text keeps the special tokens that the case's text names.
    EXPECT_EQ(tokenizer->decode(ids, false), text) << test["text"];
    EXPECT_EQ(streamed(*tokenizer, ids), tokenizer->decode(ids)) << test["text"];
  }
}

TEST_P(PublishedTokenizerTest, StreamsRandomIdsToTheirDecoding) {
  const auto folder = test_data("tokenizers") / GetParam();
  LOCKSTEP_NEEDS_TEST_DATA(folder);
  const auto tokenizer = load_tokenizer(folder);
  ASSERT_NE(tokenizer, nullptr);
  std::mt19937 random(7);
  for (int round = 0; round < 500; ++round) {
    std::vector<int32_t> ids(random() % 40);
    for (int32_t& id : ids) {
      // Half of them are low ids, where the single bytes are.
      const uint32_t size = static_cast<uint32_t>(tokenizer->vocab_size()) + 10;
      id = static_cast<int32_t>(random() % (random() % 2 == 0 ? 300 : size));
    }
    EXPECT_EQ(streamed(*tokenizer, ids), tokenizer->decode(ids));
  }
}

INSTANTIATE_TEST_SUITE_P(All, PublishedTokenizerTest, testing::Values("llama2", "gpt_neox"),
                         [](const auto& test) { return std::string(test.param); });

TEST(GoldenTokenizerTest, AgreesOnTheTextsOfEveryGolden) {
  LOCKSTEP_NEEDS_TEST_DATA("goldens");
  int cases = 0;
  for (const auto& entry : std::filesystem::directory_iterator(test_data("goldens"))) {
    if (!std::filesystem::exists(entry.path() / "tokenizer.json")) continue;
    const auto tokenizer = load_tokenizer(entry.path());
    ASSERT_NE(tokenizer, nullptr);
    const json golden = read_json(entry.path() / "golden.json");
    for (const json& test : golden["texts"]) {
      ++cases;
      expect_ids(*tokenizer, test, "ids", {});
      const std::vector<int32_t> greedy = test["greedy"];
      EXPECT_EQ(tokenizer->decode(greedy), test["decoded"]) << entry.path();
      EXPECT_EQ(streamed(*tokenizer, greedy), test["decoded"]) << entry.path();
    }
  }
  EXPECT_GT(cases, 0);
}

TEST(GoldenTokenizerTest, ContinuesAPromptLikeTheReference) {
  const auto folder = test_data("models/stories260k");
  LOCKSTEP_NEEDS_TEST_DATA(folder);
  const auto tokenizer = load_tokenizer(folder);
  ASSERT_NE(tokenizer, nullptr);
  const json golden = read_json(folder / "golden.json");
  EXPECT_FALSE(golden["prompts"].empty());
  for (const json& test : golden["prompts"]) {
    expect_ids(*tokenizer, test, "ids", {});
    const std::vector<int32_t> greedy = test["greedy"];
    std::string want = test["continuation"];
    if (!want.starts_with(" ")) {
      EXPECT_EQ(tokenizer->decode(greedy), want);
    }
    // After a text prompt the first word keeps its blank, as it does if prompt and answer are
    // decoded together.
    std::vector<int32_t> all = test["ids"];
    const std::string prompt = tokenizer->decode(all);
    all.insert(all.end(), greedy.begin(), greedy.end());
    if (prompt.empty()) continue;
    EXPECT_EQ(prompt + streamed(*tokenizer, greedy, true), tokenizer->decode(all));
  }
}

TEST(TokenizerTest, NamesTheByteThatIsNotUtf8) {
  const auto tokenizer = load_tokenizer(own_tokenizer("byte_level"));
  ASSERT_NE(tokenizer, nullptr);
  for (const std::string bad : {"abc\xFF", "abc\xED\xA0\x80", "abc\xC0\x80", "abc\xE2\x82"}) {
    const auto ids = tokenizer->encode(bad);
    ASSERT_FALSE(ids.ok());
    EXPECT_EQ(ids.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(message_of(ids.status()).find("byte 3"), std::string::npos) << ids.status();
  }
}

TEST(TokenizerTest, KnowsItsSpecialTokens) {
  const auto tokenizer = load_tokenizer(own_tokenizer("sentencepiece_like"));
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(tokenizer->bos_id(), 1);
  EXPECT_EQ(tokenizer->eos_id(), 2);
  EXPECT_TRUE(tokenizer->is_special(1));
  EXPECT_FALSE(tokenizer->is_special(100));
  EXPECT_EQ(tokenizer->token_text(1), "<s>");
  EXPECT_EQ(tokenizer->token_id("</s>"), 2);
  EXPECT_EQ(tokenizer->token_id("no such token"), std::nullopt);
  EXPECT_EQ(tokenizer->token_text(-1), "");
  EXPECT_EQ(tokenizer->token_text(tokenizer->vocab_size()), "");
}

TEST(TokenizerTest, DecodesIdsPastTheVocabularyToNothing) {
  const auto tokenizer = load_tokenizer(own_tokenizer("byte_level"));
  ASSERT_NE(tokenizer, nullptr);
  const std::vector<int32_t> ids = {tokenizer->vocab_size(), -1, INT32_MAX, INT32_MIN};
  EXPECT_EQ(tokenizer->decode(ids), "");
  EXPECT_EQ(streamed(*tokenizer, ids), "");
}

TEST(TokenizerTest, TakesNoNoticeableTimeForLongWords) {
  const double start = thread_seconds();
  for (const char* name : {"byte_level", "sentencepiece_like", "llama3_like", "qwen2_like"}) {
    const auto tokenizer = load_tokenizer(own_tokenizer(name));
    ASSERT_NE(tokenizer, nullptr);
    for (const std::string unit :
         {"A", " ", ".", "\xE4\xB8\xAD", "a\xCC\x81\xCC\xA3", "\xCC\x81\xCC\xA3"}) {
      std::string text;
      while (text.size() < 1'000'000) text += unit;
      EXPECT_TRUE(tokenizer->encode(text).ok());
    }
  }
  // The limit is generous, for sanitizers: 24 texts of 1 MB; each would take minutes in O(n^2).
  EXPECT_LT(thread_seconds() - start, 24 * 2.0);
}

}  // namespace
}  // namespace lockstep
