// SPDX-License-Identifier: Apache-2.0
// Compares each token's part of a text with the decoding of Hugging Face tokenizers.
#include "coordinator/text/detokenizer/token_texts.h"

#include <random>

#include "coordinator/text/detokenizer/detokenizer.h"
#include "coordinator/text/unicode/unicode.h"
#include "gtest/gtest.h"
#include "tests/coordinator/text/test_data.h"

namespace lockstep {
namespace {

constexpr char kOfThe[] = "\xE2\x96\x81the";  // SentencePiece's " the".

std::string shown(const Tokenizer& tokenizer, const std::vector<int32_t>& ids, bool continues) {
  Detokenizer stream(&tokenizer, continues);
  std::string text;
  for (const int32_t id : ids) text += stream.push(id);
  return text + stream.finish();
}

// The tokens' texts and bytes join to the text, and every offset is where its token's text begins.
void expect_text(const Tokenizer& tokenizer, const std::vector<int32_t>& ids, bool continues) {
  const std::string text = shown(tokenizer, ids, continues);
  TokenTexts texts(&tokenizer, continues);
  std::string joined, bytes;
  for (const int32_t id : ids) {
    const TokenText token = texts.push(id);
    EXPECT_EQ(token.offset, count_characters(joined));
    if (tokenizer.is_special(id)) continue;
    joined += token.text;
    bytes += token.bytes;
  }
  EXPECT_EQ(joined, text);
  EXPECT_EQ(bytes, text);
}

TEST(TokenTextsTest, JoinedTokensGiveTheTextAndTheirOffsetsFit) {
  for (const char* name : {"sentencepiece_like", "byte_level", "llama3_like", "qwen2_like"}) {
    const auto tokenizer = load_tokenizer(own_tokenizer(name));
    ASSERT_NE(tokenizer, nullptr);
    for (const std::string text :
         {"the cat and the hat", " two  blanks ", "\xE4\xBD\xA0\xE5\xA5\xBD, \xC3\xA9t\xC3\xA9",
          "\xF0\x9F\x9C\x81\xF0\x9F\x98\x80!", "a\n\n\tb"}) {
      const auto ids = tokenizer->encode(text);
      ASSERT_TRUE(ids.ok());
      for (const bool continues : {false, true}) expect_text(*tokenizer, *ids, continues);
      ASSERT_FALSE(HasFailure()) << name << ": " << text;
    }
  }
}

TEST(TokenTextsTest, TheTokensOfPublishedTokenizersJoinToTheGoldenTexts) {
  LOCKSTEP_NEEDS_TEST_DATA("tokenizers");
  for (const char* name : {"llama2", "gpt_neox"}) {
    const std::filesystem::path folder = test_data("tokenizers") / name;
    const auto tokenizer = load_tokenizer(folder);
    ASSERT_NE(tokenizer, nullptr);
    const nlohmann::json tokens = read_json(folder / "tokens.json");
    for (const nlohmann::json& test : tokens["cases"]) {
      expect_text(*tokenizer, test["ids"].get<std::vector<int32_t>>(), /*continues=*/false);
      ASSERT_FALSE(HasFailure()) << name << ": " << test["text"];
    }
  }
}

// Bytes in any order: a whole character shows at its end, a broken one when the next token comes.
TEST(TokenTextsTest, OffsetsAreRightForAnyBytes) {
  std::mt19937_64 random(3);
  for (const char* name : {"sentencepiece_like", "byte_level"}) {
    const auto tokenizer = load_tokenizer(own_tokenizer(name));
    ASSERT_NE(tokenizer, nullptr);
    for (int round = 0; round < 200; ++round) {
      std::vector<int32_t> ids;
      for (int i = 0; i < 12; ++i) {
        ids.push_back(static_cast<int32_t>(random() % static_cast<uint64_t>(400)));
      }
      ids.push_back(*tokenizer->token_id("a"));  // This token ends a run of bytes.
      const std::string text = shown(*tokenizer, ids, true);
      TokenTexts texts(tokenizer.get(), true);
      for (const int32_t id : ids) texts.push(id);
      EXPECT_EQ(texts.push(*tokenizer->token_id("b")).offset, count_characters(text));
    }
  }
}

TEST(TokenTextsTest, ATokenShowsItsBlankExceptAtTheStartOfAText) {
  const auto tokenizer = load_tokenizer(own_tokenizer("sentencepiece_like"));
  ASSERT_NE(tokenizer, nullptr);
  const int32_t the = tokenizer->token_id(kOfThe).value();
  TokenTexts whole(tokenizer.get(), /*continues=*/false);
  EXPECT_EQ(whole.push(tokenizer->token_id("<s>").value()).text, "<s>");
  EXPECT_EQ(whole.push(the).text, "the");
  EXPECT_EQ(whole.push(the).text, " the");
  TokenTexts rest(tokenizer.get(), /*continues=*/true);
  EXPECT_EQ(rest.push(the).text, " the");
}

TEST(TokenTextsTest, EachPartOfACharacterHasItsBytesAndTheLastOneHasTheText) {
  const auto tokenizer = load_tokenizer(own_tokenizer("sentencepiece_like"));
  ASSERT_NE(tokenizer, nullptr);
  TokenTexts texts(tokenizer.get(), true);
  for (const char* part : {"<0xE4>", "<0xBD>"}) {
    const TokenText token = texts.push(tokenizer->token_id(part).value());
    EXPECT_EQ(token.text, "");
    EXPECT_EQ(token.bytes.size(), 1u);
    EXPECT_EQ(token.offset, 0);
  }
  const TokenText last = texts.push(tokenizer->token_id("<0xA0>").value());
  EXPECT_EQ(last.text, "\xE4\xBD\xA0");
  EXPECT_EQ(last.bytes, "\xA0");
  EXPECT_EQ(texts.push(tokenizer->token_id("a").value()).offset, 1);
}

TEST(TokenTextsTest, AnAlternativeTokenDoesNotChangeTheText) {
  const auto tokenizer = load_tokenizer(own_tokenizer("sentencepiece_like"));
  ASSERT_NE(tokenizer, nullptr);
  TokenTexts texts(tokenizer.get(), true);
  texts.push(tokenizer->token_id("<0xC3>").value());
  EXPECT_EQ(texts.instead(tokenizer->token_id("<0xA8>").value()).text, "\xC3\xA8");
  EXPECT_EQ(texts.instead(tokenizer->token_id("a").value()).text, "a");
  EXPECT_EQ(texts.instead(tokenizer->token_id("a").value()).bytes, "a");
  EXPECT_EQ(texts.instead(tokenizer->token_id("</s>").value()).text, "</s>");
  EXPECT_EQ(texts.instead(100'000).text, "") << "an id without a token";
  EXPECT_EQ(texts.push(tokenizer->token_id("<0xA9>").value()).text, "\xC3\xA9");
}

}  // namespace
}  // namespace lockstep
