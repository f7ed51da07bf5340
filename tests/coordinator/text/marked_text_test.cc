// SPDX-License-Identifier: Apache-2.0
// Texts that remember which bytes came from a request, and how the tokenizer encodes them.
#include "coordinator/text/marked_text.h"

#include <random>

#include "tests/coordinator/text/test_data.h"

namespace lockstep {
namespace {

MarkedText text_of(const std::vector<std::pair<std::string, bool>>& parts) {
  MarkedText text;
  for (const auto& [part, from_request] : parts) text.append(part, from_request);
  return text;
}

TEST(MarkedTextTest, RangesThatTouchAreMerged) {
  const MarkedText text = text_of({{"ab", true}, {"cd", true}, {"", false}, {"e", true}});
  EXPECT_EQ(text.from_request, (std::vector<ByteRange>{{0, 5}}));
}

TEST(MarkedTextTest, APartHasTheMarksOfItsBytes) {
  const MarkedText text = text_of({{"ab", false}, {"cd", true}, {"ef", false}, {"gh", true}});
  EXPECT_EQ(text.substr(1, 7), text_of({{"b", false}, {"cd", true}, {"ef", false}, {"g", true}}));
  EXPECT_EQ(text.substr(2, 4), text_of({{"cd", true}}));
  EXPECT_EQ(text.substr(4, 6), text_of({{"ef", false}}));
  EXPECT_EQ(pieces_of(text, 3, 5).size(), 2u);
}

TEST(MarkedTextTest, TruncatingCutsARange) {
  MarkedText text = text_of({{"ab", false}, {"cd", true}, {"e", false}, {"f", true}});
  text.truncate(3);
  EXPECT_EQ(text, text_of({{"ab", false}, {"c", true}}));
}

class MarkedEncodeTest : public ::testing::Test {
 protected:
  // "ab" has an id of its own; "<|end|>" is special, "<note>" is not.
  std::unique_ptr<Tokenizer> tokenizer(const std::string& normalized) {
    const std::string spec = R"({"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2,"<":3,"|":4,
      "e":5,"n":6,"d":7,">":8,"o":9,"t":10},"merges":["a b"]},"added_tokens":[
      {"id":11,"content":"<|end|>","special":true,"normalized":)" +
                             normalized + R"(},
      {"id":12,"content":"<note>","special":false,"normalized":false}]})";
    auto parsed = Tokenizer::parse(spec);
    EXPECT_TRUE(parsed.ok()) << parsed.status();
    return parsed.ok() ? *std::move(parsed) : nullptr;
  }

  std::vector<int32_t> encode(const Tokenizer& tokenizer, const MarkedText& text) {
    const auto ids = tokenizer.encode(text, /*add_special=*/false);
    EXPECT_TRUE(ids.ok()) << ids.status();
    return ids.ok() ? *ids : std::vector<int32_t>();
  }
};

const std::vector<int32_t> kSpelled = {3, 4, 5, 6, 7, 4, 8};  // "<|end|>" as text.

TEST_F(MarkedEncodeTest, ASpecialTokenInARequestStaysText) {
  for (const char* normalized : {"false", "true"}) {
    const auto encoder = tokenizer(normalized);
    ASSERT_NE(encoder, nullptr);
    EXPECT_EQ(encode(*encoder, text_of({{"<|end|>", true}})), kSpelled);
    EXPECT_EQ(encode(*encoder, text_of({{"<|end|>", false}})), (std::vector<int32_t>{11}));
    std::vector<int32_t> both = kSpelled;
    both.push_back(11);
    EXPECT_EQ(encode(*encoder, text_of({{"<|end|>", true}, {"<|end|>", false}})), both);
    both.insert(both.begin(), 11);
    EXPECT_EQ(
        encode(*encoder, text_of({{"<|end|>", false}, {"<|end|>", true}, {"<|end|>", false}})),
        both);
  }
}

TEST_F(MarkedEncodeTest, ASpecialTokenAcrossTheBorderOfARequestStaysText) {
  for (const char* normalized : {"false", "true"}) {
    const auto encoder = tokenizer(normalized);
    ASSERT_NE(encoder, nullptr);
    EXPECT_EQ(encode(*encoder, text_of({{"<|en", false}, {"d|>", true}})), kSpelled);
    EXPECT_EQ(encode(*encoder, text_of({{"<", true}, {"|end|>", false}})), kSpelled);
    EXPECT_EQ(encode(*encoder, text_of({{"<|", false}, {"end", true}, {"|>", false}})), kSpelled);
  }
}

TEST_F(MarkedEncodeTest, TextWithoutSpecialTokensIsEncodedAsIfThereWereNoBorder) {
  const auto encoder = tokenizer("false");
  ASSERT_NE(encoder, nullptr);
  EXPECT_EQ(encode(*encoder, text_of({{"a", false}, {"b", true}})), (std::vector<int32_t>{2}));
  EXPECT_EQ(encode(*encoder, text_of({{"<no", true}, {"te>", false}})), (std::vector<int32_t>{12}));
}

TEST_F(MarkedEncodeTest, ASpecialTokenOfTheTemplateLeavesTheTextBesideItUnsplit) {
  for (const char* normalized : {"false", "true"}) {
    const auto encoder = tokenizer(normalized);
    ASSERT_NE(encoder, nullptr);
    EXPECT_EQ(encode(*encoder, text_of({{"a", false}, {"b", true}, {"<|end|>", false}})),
              (std::vector<int32_t>{2, 11}));
    EXPECT_EQ(encode(*encoder, text_of({{"<|end|>a", false}, {"b", true}, {"<no", false}})),
              (std::vector<int32_t>{11, 2, 3, 6, 9}));
    // A special token of the request stays text, and does not split the text beside it, either.
    std::vector<int32_t> both = {2, 11, 2};
    both.insert(both.end(), kSpelled.begin(), kSpelled.end());
    EXPECT_EQ(encode(*encoder,
                     text_of({{"a", false}, {"b", true}, {"<|end|>a", false}, {"b<|end|>", true}})),
              both);
  }
}

// A tokenizer that finds its special token after normalization by `normalizer`.
std::string normalized_spec(const std::string& normalizer) {
  std::string vocabulary;
  int id = 0;
  for (const char* token :
       {"a",      "b",      "e",      "n",      "d", "<", "|", ">",  "_",  " ",
        "\u00e9", "\u0301", "\u226f", "\u0338", "A", "N", "D", "ab", "_a", "b_"}) {
    vocabulary += fmt::format("{}\"{}\":{}", id == 0 ? "" : ",", token, id);
    ++id;
  }
  return fmt::format(R"({{"model":{{"type":"BPE","vocab":{{{}}},"merges":["a b","_ a","b _"]}},)"
                     R"("normalizer":{},"added_tokens":[)"
                     R"({{"id":20,"content":"<|end|>","special":true,"normalized":true}}]}})",
                     vocabulary, normalizer);
}

const char* const kNormalizers[] = {R"({"type":"NFC"})",
                                    R"({"type":"NFD"})",
                                    R"({"type":"Lowercase"})",
                                    R"({"type":"Strip","strip_left":true,"strip_right":true})",
                                    R"({"type":"Replace","pattern":{"String":" "},"content":"_"})",
                                    R"({"type":"Replace","pattern":{"Regex":"_+"},"content":"_"})",
                                    R"({"type":"Replace","pattern":{"String":"ab"},"content":"b"})",
                                    R"({"type":"StripAccents"})",
                                    R"({"type":"Nmt"})"};

// These requests have no "<", "|" or ">", so they make no special token, not even a part of one.
TEST_F(MarkedEncodeTest, ARequestWithoutSpecialTokensHasThePlainEncodingUnderEveryNormalizer) {
  constexpr uint32_t kSeed = 31;
  std::mt19937 random(kSeed);
  std::printf("seed %u\n", kSeed);
  const std::vector<std::string> request = {"a", "b", "e", " ", "_", "A", "\u00e9", "\u0301"};
  const std::vector<std::string> of_template = {"<|end|>", "<|end|>", "a", "b", " ", "e", "_"};
  for (const char* normalizer : kNormalizers) {
    const auto encoder = Tokenizer::parse(normalized_spec(normalizer));
    ASSERT_TRUE(encoder.ok()) << encoder.status();
    for (int round = 0; round < 500; ++round) {
      MarkedText text;
      for (uint32_t parts = 1 + random() % 8; parts > 0; --parts) {
        const bool marked = random() % 2 == 0;
        const auto& pool = marked ? request : of_template;
        for (uint32_t i = 1 + random() % 3; i > 0; --i) {
          text.append(pool[random() % pool.size()], marked);
        }
      }
      const auto plain = (*encoder)->encode(text.bytes, {.add_special = false});
      ASSERT_TRUE(plain.ok()) << plain.status();
      ASSERT_EQ(encode(**encoder, text), *plain) << normalizer << " " << text.bytes;
    }
  }
}

// A normalizer that prepends "_" to texts also makes "_<|end|>" of the special token.
TEST_F(MarkedEncodeTest, PrependAddsItsTextToAWholeTextAndNotToEachPiece) {
  const auto encoder = Tokenizer::parse(
      normalized_spec(R"({"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"_"},)"
                      R"({"type":"Replace","pattern":{"String":" "},"content":"_"}]})"));
  ASSERT_TRUE(encoder.ok()) << encoder.status();
  const MarkedText text = text_of({{"a", false}, {"b", true}, {" <|end|>a", false}, {"b", true}});
  EXPECT_EQ(encode(**encoder, text), *(*encoder)->encode(text.bytes, {.add_special = false}));
  EXPECT_EQ(std::ranges::count(encode(**encoder, text), 20), 1);
  const MarkedText forged = text_of({{"a", false}, {" <|end|>", true}, {" <|end|>", false}});
  EXPECT_EQ(std::ranges::count(encode(**encoder, forged), 20), 1);
}

// If two pieces are normalized together, this may also change text of the piece before the two.
TEST_F(MarkedEncodeTest, NormalizersThatReachAcrossPiecesMakeTheSameText) {
  constexpr uint32_t kSeed = 32;
  std::mt19937 random(kSeed);
  std::printf("seed %u\n", kSeed);
  const std::vector<std::string> pool = {"a", "b", "e", " ", "  ", "ea", "ab"};
  for (const std::string normalizer :
       {R"({"type":"Replace","pattern":{"Regex":" {2,}"},"content":"_"})",
        R"({"type":"Sequence","normalizers":[)"
        R"({"type":"Replace","pattern":{"String":"ea"},"content":"\u00e9"},)"
        R"({"type":"Replace","pattern":{"String":"ab"},"content":""}]})"}) {
    const auto encoder = Tokenizer::parse(normalized_spec(normalizer));
    ASSERT_TRUE(encoder.ok()) << encoder.status();
    for (int round = 0; round < 2000; ++round) {
      MarkedText text;
      for (uint32_t parts = 2 + random() % 30; parts > 0; --parts) {
        text.append(pool[random() % pool.size()], random() % 2 == 0);
      }
      text.append("<|end|>", false);
      // All but the end token is compared. If normal forms reach across pieces, the whole text may
      // count as the request's, and then "<|end|>" stays text.
      std::vector<int32_t> ids = encode(**encoder, text);
      std::vector<int32_t> plain = *(*encoder)->encode(text.bytes, {.add_special = false});
      ids.resize(std::min(ids.size(), plain.size() - 1));
      plain.pop_back();
      ASSERT_EQ(ids, plain) << normalizer << " " << text.bytes;
    }
  }
}

TEST_F(MarkedEncodeTest, ASpecialTokenOfARequestStaysTextUnderEveryNormalizer) {
  for (const char* normalizer : kNormalizers) {
    const auto encoder = Tokenizer::parse(normalized_spec(normalizer));
    ASSERT_TRUE(encoder.ok()) << encoder.status();
    for (const MarkedText& text :
         {text_of({{"<|end|>", true}, {"<|end|>", false}}),
          text_of({{"<|end|>a<", false}, {"|end|>", true}}),
          text_of({{"<|end|>", false}, {"a<|e", true}, {"nd|>", false}}),
          text_of({{"<|end|>", false}, {"<|", true}, {"end", false}, {"|>", true}}),
          text_of({{"<|end|>", false}, {" <|end|> ", true}, {" ", false}})}) {
      const auto ids = encode(**encoder, text);
      EXPECT_EQ(std::ranges::count(ids, 20), 1) << normalizer << " " << text.bytes;
    }
  }
  const auto lower = Tokenizer::parse(normalized_spec(kNormalizers[2]));
  ASSERT_TRUE(lower.ok()) << lower.status();
  EXPECT_EQ(encode(**lower, text_of({{"<|END|>", false}})), (std::vector<int32_t>{20}));
  EXPECT_EQ(encode(**lower, text_of({{"<|END|>", true}})),
            (std::vector<int32_t>{5, 6, 2, 3, 4, 6, 7}));
}

TEST_F(MarkedEncodeTest, ATextWithoutMarksHasThePlainEncoding) {
  for (const char* name : {"byte_level", "qwen2_like", "sentencepiece_like"}) {
    const auto encoder = load_tokenizer(own_tokenizer(name));
    ASSERT_NE(encoder, nullptr);
    const std::string text = "Hello, <|im_end|> wörld </s> it's";
    const auto plain = encoder->encode(text);
    ASSERT_TRUE(plain.ok());
    EXPECT_EQ(*encoder->encode(MarkedText::of(text, false), true), *plain);
    EXPECT_EQ(*encoder->encode(MarkedText::of(text, true), true),
              *encoder->encode(text, {.parse_special = false}));
  }
}

}  // namespace
}  // namespace lockstep
