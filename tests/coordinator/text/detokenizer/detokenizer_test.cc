// SPDX-License-Identifier: Apache-2.0
// When the detokenizer shows a piece of a stream, and the text of the piece.
#include "coordinator/text/detokenizer/detokenizer.h"

#include "gtest/gtest.h"
#include "tests/coordinator/text/test_data.h"

namespace lockstep {
namespace {

class SentencePieceDetokenizerTest : public testing::Test {
 protected:
  void SetUp() override {
    tokenizer_ = load_tokenizer(own_tokenizer("sentencepiece_like"));
    ASSERT_NE(tokenizer_, nullptr);
  }
  int32_t id(const std::string& token) {
    const auto id = tokenizer_->token_id(token);
    EXPECT_TRUE(id.has_value()) << token;
    return id.value_or(0);
  }
  std::unique_ptr<Tokenizer> tokenizer_;
};

TEST_F(SentencePieceDetokenizerTest, HoldsAByteFallbackRunUntilItEnds) {
  Detokenizer stream(tokenizer_.get(), false);
  EXPECT_EQ(stream.push(id("<0xE4>")), "");
  EXPECT_EQ(stream.push(id("<0xBD>")), "");
  EXPECT_EQ(stream.push(id("<0xA0>")),
            "");  // A whole character; the next byte could make it invalid.
  EXPECT_EQ(stream.push(id("a")),
            "\xE4\xBD\xA0"
            "a");
  EXPECT_EQ(stream.finish(), "");
}

TEST_F(SentencePieceDetokenizerTest, ReplacesEveryByteOfARunThatIsNotUtf8) {
  Detokenizer stream(tokenizer_.get(), false);
  EXPECT_EQ(stream.push(id("<0x41>")), "");
  EXPECT_EQ(stream.push(id("<0xFF>")), "");
  EXPECT_EQ(stream.finish(), "\xEF\xBF\xBD\xEF\xBF\xBD");
}

TEST_F(SentencePieceDetokenizerTest, ASpecialTokenDoesNotEndAByteRun) {
  Detokenizer stream(tokenizer_.get(), false);
  EXPECT_EQ(stream.push(id("<0xC3>")), "");
  EXPECT_EQ(stream.push(id("</s>")), "");
  EXPECT_EQ(stream.push(id("<0xA9>")), "");
  EXPECT_EQ(stream.finish(), "\xC3\xA9");
}

TEST_F(SentencePieceDetokenizerTest, KeepsTheLeadingBlankOfATextThatContinues) {
  for (const bool continues : {false, true}) {
    Detokenizer stream(tokenizer_.get(), continues);
    std::string text =
        stream.push(id("\xE2\x96\x81"
                       "the"));
    text +=
        stream.push(id("\xE2\x96\x81"
                       "the"));
    EXPECT_EQ(text + stream.finish(), continues ? " the the" : "the the");
  }
}

TEST_F(SentencePieceDetokenizerTest, ACopyIsIndependent) {
  Detokenizer stream(tokenizer_.get(), false);
  stream.push(id("<0xC3>"));
  Detokenizer fork = stream;
  stream.push(id("<0xA9>"));
  fork.push(id("<0xA8>"));
  EXPECT_EQ(stream.finish(), "\xC3\xA9");
  EXPECT_EQ(fork.finish(), "\xC3\xA8");
}

TEST(ByteLevelDetokenizerTest, HoldsAnUnfinishedCharacter) {
  const auto tokenizer = load_tokenizer(own_tokenizer("byte_level"));
  ASSERT_NE(tokenizer, nullptr);
  const auto ids = tokenizer->encode("\xF0\x9F\x9C\x81");  // There are no merges: four tokens.
  ASSERT_TRUE(ids.ok());
  ASSERT_EQ(ids->size(), 4u);
  Detokenizer stream(tokenizer.get(), true);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(stream.push((*ids)[i]), "");
  EXPECT_EQ(stream.push((*ids)[3]), "\xF0\x9F\x9C\x81");
  EXPECT_EQ(stream.push((*ids)[0]), "");
  EXPECT_EQ(stream.push((*ids)[1]), "");
  EXPECT_EQ(stream.push((*ids)[0]), "\xEF\xBF\xBD");  // One U+FFFD for both bytes of a character.
  EXPECT_EQ(stream.finish(), "\xEF\xBF\xBD");
}

// Decodes ids with the given decoder, and checks that a stream gives the same. Token 2 is "ab",
// token 3 is "c".
std::string decoded(const std::string& decoder, const std::vector<int32_t>& ids) {
  const auto tokenizer = Tokenizer::parse(spec_with("\"decoder\":" + decoder));
  if (!tokenizer.ok()) return message_of(tokenizer.status());
  Detokenizer stream(tokenizer->get(), false);
  std::string text;
  for (const int32_t id : ids) text += stream.push(id);
  text += stream.finish();
  EXPECT_EQ(text, (*tokenizer)->decode(ids));
  return text;
}

TEST(DecoderTest, JoinsByBlanksWithoutADecoder) {
  EXPECT_EQ(decoded("null", {2, 3, 2}), "ab c ab");
}

TEST(DecoderTest, HoldsBackTheWholeTextIfAMatchMayCrossTokens) {
  EXPECT_EQ(decoded(R"({"type":"Sequence","decoders":[{"type":"Fuse"},
      {"type":"Replace","pattern":{"String":"bc"},"content":"-"}]})",
                    {2, 3, 2, 3}),
            "a-a-");
}

TEST(DecoderTest, StripsBothEndsOfAStream) {
  EXPECT_EQ(decoded(R"({"type":"Sequence","decoders":[{"type":"Fuse"},
      {"type":"Strip","content":"c","start":1,"stop":2}]})",
                    {3, 3, 2, 3, 3, 2, 3, 3, 3}),
            "cabccabc");
}

TEST(DecoderTest, MetaspaceDropsTheFirstTokensMarksOnly) {
  EXPECT_EQ(
      decoded(R"({"type":"Metaspace","replacement":"c","prepend_scheme":"always"})", {3, 2, 3}),
      "ab ");
}

}  // namespace
}  // namespace lockstep
