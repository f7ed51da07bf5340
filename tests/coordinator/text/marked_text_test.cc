// SPDX-License-Identifier: Apache-2.0
// Texts that remember what came from a request, and what the tokenizer makes of them.
#include "coordinator/text/marked_text.h"

#include "tests/coordinator/text/test_data.h"

namespace lockstep {
namespace {

MarkedText text_of(const std::vector<std::pair<std::string, bool>>& parts) {
  MarkedText text;
  for (const auto& [part, from_request] : parts) text.append(part, from_request);
  return text;
}

TEST(MarkedTextTest, RangesThatTouchAreOne) {
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
  // "ab" has ids of its own; "<|end|>" is special, "<note>" is not.
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

TEST_F(MarkedEncodeTest, ASpecialTokenAcrossTheBorderStaysText) {
  for (const char* normalized : {"false", "true"}) {
    const auto encoder = tokenizer(normalized);
    ASSERT_NE(encoder, nullptr);
    EXPECT_EQ(encode(*encoder, text_of({{"<|en", false}, {"d|>", true}})), kSpelled);
    EXPECT_EQ(encode(*encoder, text_of({{"<", true}, {"|end|>", false}})), kSpelled);
    EXPECT_EQ(encode(*encoder, text_of({{"<|", false}, {"end", true}, {"|>", false}})), kSpelled);
  }
}

TEST_F(MarkedEncodeTest, OtherTextIsEncodedAsIfThereWereNoBorder) {
  const auto encoder = tokenizer("false");
  ASSERT_NE(encoder, nullptr);
  EXPECT_EQ(encode(*encoder, text_of({{"a", false}, {"b", true}})), (std::vector<int32_t>{2}));
  EXPECT_EQ(encode(*encoder, text_of({{"<no", true}, {"te>", false}})), (std::vector<int32_t>{12}));
}

TEST_F(MarkedEncodeTest, WithoutMarksItIsThePlainEncoding) {
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
