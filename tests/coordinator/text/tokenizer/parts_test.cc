// SPDX-License-Identifier: Apache-2.0
// Compares each part of a tokenizer by itself with values from Hugging Face tokenizers.
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>

#include "base/source_dir.h"
#include "coordinator/text/tokenizer/bpe.h"
#include "coordinator/text/tokenizer/normalizer.h"
#include "coordinator/text/tokenizer/pre_tokenizer.h"
#include "coordinator/text/unicode/unicode.h"
#include "coordinator/text/unicode/unicode_9.h"
#include "coordinator/text/unicode/unicode_forms.h"
#include "gtest/gtest.h"
#include "tests/coordinator/text/test_data.h"
#include "tests/support/processor_time.h"

namespace lockstep {
namespace {

using nlohmann::json;

std::vector<std::string> words(const std::string& spec, const std::string& text) {
  const auto pre_tokenizer = PreTokenizer::from_json(json::parse(spec, nullptr, false));
  EXPECT_TRUE(pre_tokenizer.ok()) << pre_tokenizer.status();
  const auto pieces = pre_tokenizer->split({text, true});
  EXPECT_TRUE(pieces.ok()) << pieces.status();
  std::vector<std::string> texts;
  for (const Piece& piece : *pieces) texts.push_back(piece.text);
  return texts;
}

std::vector<std::string> split_at_dashes(const std::string& behavior,
                                         const std::string& more = "") {
  return words(
      R"({"type":"Split","pattern":{"String":"-"},"behavior":")" + behavior + "\"" + more + "}",
      "the-final--countdown");
}

using Words = std::vector<std::string>;

TEST(PreTokenizerTest, SplitKnowsFiveBehaviours) {
  EXPECT_EQ(split_at_dashes("Removed"), (Words{"the", "final", "countdown"}));
  EXPECT_EQ(split_at_dashes("Isolated"), (Words{"the", "-", "final", "-", "-", "countdown"}));
  EXPECT_EQ(split_at_dashes("MergedWithPrevious"), (Words{"the-", "final-", "-", "countdown"}));
  EXPECT_EQ(split_at_dashes("MergedWithNext"), (Words{"the", "-final", "-", "-countdown"}));
  EXPECT_EQ(split_at_dashes("Contiguous"), (Words{"the", "-", "final", "--", "countdown"}));
  EXPECT_EQ(split_at_dashes("Removed", ",\"invert\":true"), (Words{"-", "-", "-"}));
}

TEST(PreTokenizerTest, MetaspaceMarksTheBeginningByItsScheme) {
  const auto metaspace = [](const std::string& scheme) {
    return R"({"type":"Metaspace","replacement":"_","prepend_scheme":")" + scheme + "\"}";
  };
  EXPECT_EQ(words(metaspace("always"), "Hey  you"), (Words{"_Hey", "_", "_you"}));
  EXPECT_EQ(words(metaspace("never"), "Hey you"), (Words{"Hey", "_you"}));
  const std::string split = R"({"type":"Split","pattern":{"String":"|"},"behavior":"Removed"},)";
  EXPECT_EQ(
      words(R"({"type":"Sequence","pretokenizers":[)" + split + metaspace("first") + "]}", "a|b"),
      (Words{"_a", "b"}));
  EXPECT_EQ(
      words(R"({"type":"Sequence","pretokenizers":[)" + split + metaspace("first") + "]}", "|b"),
      (Words{"b"}));
}

TEST(PreTokenizerTest, CutsDigitsPunctuationAndBlanks) {
  EXPECT_EQ(words(R"({"type":"Digits","individual_digits":true})", "a12b"),
            (Words{"a", "1", "2", "b"}));
  EXPECT_EQ(words(R"({"type":"Digits"})", "a12b"), (Words{"a", "12", "b"}));
  // A digit of Unicode 17.
  EXPECT_EQ(words(R"({"type":"Digits"})", "a\xF0\x91\xB7\xA1"), (Words{"a", "\xF0\x91\xB7\xA1"}));
  EXPECT_EQ(words(R"({"type":"Punctuation"})", "a,$b"), (Words{"a", ",", "$", "b"}));
  EXPECT_EQ(words(R"({"type":"WhitespaceSplit"})", " a\tb.c "), (Words{"a", "b.c"}));
  EXPECT_EQ(words(R"({"type":"Whitespace"})", " a_1\tb.,c "), (Words{"a_1", "b", ".,", "c"}));
}

TEST(PreTokenizerTest, CutsAtDelimitersAtAFixedLengthAndLikeBert) {
  EXPECT_EQ(words(R"({"type":"CharDelimiterSplit","delimiter":"|"})", "a||b|c|"),
            (Words{"a", "b", "c"}));
  EXPECT_EQ(words(R"({"type":"FixedLength","length":3})", "abcde\u00e9fg\u6f22"),
            (Words{"abc", "de\u00e9", "fg\u6f22"}));
  EXPECT_EQ(words(R"({"type":"BertPreTokenizer"})", "Hey, friend!  \u00e9\u6f22\u3002x$y"),
            (Words{"Hey", ",", "friend", "!", "\u00e9\u6f22", "\u3002", "x", "$", "y"}));
}

TEST(PostProcessorTest, BertAndRobertaPutOneTokenOnEachSide) {
  for (const std::string type : {"BertProcessing", "RobertaProcessing"}) {
    const auto tokenizer = Tokenizer::parse(
        spec_with(R"("post_processor":{"type":")" + type + R"(","sep":["c",3],"cls":["a",0]})"));
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    EXPECT_EQ(*(*tokenizer)->encode("b", {.add_special = true}), (std::vector<int32_t>{0, 1, 3}));
    EXPECT_FALSE(Tokenizer::parse(spec_with(R"("post_processor":{"type":")" + type +
                                            R"(","sep":["c",30],"cls":["a",0]})"))
                     .ok());
  }
}

TEST(PreTokenizerTest, ByteLevelWritesEveryByteAsACharacter) {
  EXPECT_EQ(words(R"({"type":"ByteLevel","add_prefix_space":true})", "a \n\xC3\xA9"),
            (Words{"\xC4\xA0"
                   "a",
                   "\xC4\xA0", "\xC4\x8A", "\xC3\x83\xC2\xA9"}));
}

std::string normalized(const std::string& spec, std::string text, bool* at_start) {
  const auto normalizer = Normalizer::from_json(json::parse(spec, nullptr, false));
  EXPECT_TRUE(normalizer.ok()) << normalizer.status();
  EXPECT_TRUE(normalizer->normalize(&text, at_start).ok());
  return text;
}

TEST(NormalizerTest, AppliesASequenceInOrder) {
  bool at_start = true;
  EXPECT_EQ(normalized(R"({"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"_"},
      {"type":"Replace","pattern":{"Regex":"\\s+"},"content":"_"},{"type":"Lowercase"}]})",
                       "A \t\xC4\xB0", &at_start),
            "_a_i\xCC\x87");
  EXPECT_TRUE(at_start);
  EXPECT_EQ(normalized(R"({"type":"Prepend","prepend":"_"})", "", &at_start), "");
  EXPECT_EQ(normalized(R"({"type":"Strip","strip_left":true,"strip_right":true})", "\xC2\xA0 a ",
                       &at_start),
            "a");
  EXPECT_FALSE(at_start);
}

// The results of Hugging Face tokenizers for each character, and the places where they cut texts.
const json& characters() {
  static const json data = [] {
    std::ifstream file(std::filesystem::path(LOCKSTEP_SOURCE_DIR) / "tests" / "data" /
                       "tokenizers" / "characters.json");
    return json::parse(file);
  }();
  return data;
}

// Calls `use` for each character with the value of its run: [[first character, value], ...].
template <typename Use>
void for_each_character(const json& runs, Use use) {
  size_t run = 0;
  for (char32_t c = 0; c <= kLastCodePoint; ++c) {
    if (run + 1 < runs.size() && runs[run + 1][0] == c) ++run;
    if (c < 0xD800 || c >= 0xE000) use(c, runs[run][1]);
  }
}

TEST(NormalizerTest, StripAccentsAndNmtMatchTheReferenceForEveryCharacter) {
  const auto accents = Normalizer::from_json({{"type", "StripAccents"}});
  const auto nmt = Normalizer::from_json({{"type", "Nmt"}});
  ASSERT_TRUE(accents.ok() && nmt.ok());
  std::map<char32_t, std::string> changed;
  for (const json& pair : characters()["Nmt"]) changed[pair[0].get<char32_t>()] = pair[1];
  EXPECT_GT(changed.size(), 40u);
  for_each_character(characters()["StripAccents"], [&](char32_t c, const json& stays) {
    std::string character;
    append_utf8(c, &character);
    bool at_start = true;
    std::string text = "a" + character + "b";
    ASSERT_TRUE(accents->normalize(&text, &at_start).ok());
    ASSERT_EQ(text, stays ? "a" + character + "b" : "ab") << std::hex << uint32_t{c};
    text = "a" + character + "b";
    ASSERT_TRUE(nmt->normalize(&text, &at_start).ok());
    const auto made = changed.find(c);
    ASSERT_EQ(text, "a" + (made == changed.end() ? character : made->second) + "b")
        << std::hex << uint32_t{c};
    ASSERT_TRUE(at_start);
  });
}

TEST(NormalizerTest, RemovingTheFirstCharacterClearsAtStart) {
  bool at_start = true;
  EXPECT_EQ(normalized(R"({"type":"StripAccents"})", "a\xCC\x81", &at_start), "a");
  EXPECT_EQ(normalized(R"({"type":"Nmt"})", "\tb\x01", &at_start), " b");
  EXPECT_TRUE(at_start);
  EXPECT_EQ(normalized(R"({"type":"StripAccents"})", "\xCC\x81 a", &at_start), " a");
  EXPECT_FALSE(at_start);
  at_start = true;
  EXPECT_EQ(normalized(R"({"type":"Nmt"})", "\x01 a", &at_start), " a");
  EXPECT_FALSE(at_start);
}

TEST(PreTokenizerTest, ScriptsAreThoseOfTheReference) {
  std::map<int, int> ours_of;
  std::map<int, int> theirs_of;
  for_each_character(characters()["UnicodeScripts"], [&](char32_t c, const json& script) {
    const int theirs = script.get<int>();
    const int ours = script_of_unicode_9(c);
    ASSERT_EQ(ours == kAnyScript, theirs == -1) << std::hex << uint32_t{c};
    ASSERT_EQ(ours_of.emplace(theirs, ours).first->second, ours) << std::hex << uint32_t{c};
    ASSERT_EQ(theirs_of.emplace(ours, theirs).first->second, theirs) << std::hex << uint32_t{c};
  });
  EXPECT_GT(ours_of.size(), 130u);
  for (const json& pair : characters()["texts"]) {
    EXPECT_EQ(words(R"({"type":"UnicodeScripts"})", pair[0].get<std::string>()),
              pair[1].get<Words>());
  }
}

TEST(UnicodeFormTest, OrdersMarksAndComposes) {
  EXPECT_EQ(to_unicode_form("e\xCC\x81", UnicodeForm::kNfc), "\xC3\xA9");
  EXPECT_EQ(to_unicode_form("\xC3\xA9", UnicodeForm::kNfd), "e\xCC\x81");
  EXPECT_EQ(to_unicode_form("a\xCC\x81\xCC\xA3", UnicodeForm::kNfd), "a\xCC\xA3\xCC\x81");
  EXPECT_EQ(to_unicode_form("\xEF\xAC\x81", UnicodeForm::kNfkc), "fi");
  EXPECT_EQ(to_unicode_form("\xEF\xAC\x81", UnicodeForm::kNfc), "\xEF\xAC\x81");
  EXPECT_EQ(to_unicode_form("\xE1\x84\x92\xE1\x85\xA1\xE1\x86\xAB", UnicodeForm::kNfc),
            "\xED\x95\x9C");
}

TEST(UnicodeTest, RoundTripsEveryCodePoint) {
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string text;
    append_utf8(c, &text);
    ASSERT_EQ(first_invalid_utf8(text), std::nullopt);
    ASSERT_EQ(code_point_at(text, 0).value, c);
    ASSERT_EQ(code_point_before(text, text.size()).bytes, text.size());
  }
}

TEST(UnicodeTest, CutsBrokenBytesAtMaximalSubparts) {
  const auto lengths = [](std::string_view bytes) {
    std::vector<size_t> all;
    while (!bytes.empty()) {
      all.push_back(first_sequence(bytes).bytes);
      bytes.remove_prefix(all.back());
    }
    return all;
  };
  // The example of the Unicode Standard, table 3-11.
  EXPECT_EQ(lengths("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), (std::vector<size_t>{2, 1, 3, 2, 1}));
  EXPECT_EQ(lengths("\xC0\xAF\xED\xA0\x80"), (std::vector<size_t>{1, 1, 1, 1, 1}));
}

std::vector<int32_t> bpe_ids(const std::string& model, const std::string& word) {
  const auto bpe = Bpe::from_json(json::parse(model, nullptr, false));
  EXPECT_TRUE(bpe.ok()) << bpe.status();
  Bpe::Scratch scratch;
  std::vector<int32_t> ids;
  EXPECT_TRUE(bpe->encode(word, &scratch, &ids).ok());
  return ids;
}

TEST(BpeTest, MergesByRankThenFromTheLeft) {
  const std::string model = R"({"type":"BPE","vocab":{"a":0,"b":1,"aa":2,"ab":3,"aab":4},)"
                            R"("merges":["a b",["a","a"],"a ab"]})";
  EXPECT_EQ(bpe_ids(model, "aab"), (std::vector<int32_t>{4}));
  EXPECT_EQ(bpe_ids(model, "aaaa"), (std::vector<int32_t>{2, 2}));
  EXPECT_EQ(bpe_ids(model, "aaa"), (std::vector<int32_t>{2, 0}));
  EXPECT_EQ(bpe_ids(model, ""), (std::vector<int32_t>{}));
}

TEST(BpeTest, HandlesUnknownCharactersByItsOptions) {
  const std::string vocabulary =
      R"("vocab":{"a":0,"<unk>":1,"<0xC3>":2,"<0xA9>":3},"merges":[],"unk_token":"<unk>")";
  const std::string open = R"({"type":"BPE",)" + vocabulary;
  EXPECT_EQ(bpe_ids(open + "}", "xxa"), (std::vector<int32_t>{1, 1, 0}));
  EXPECT_EQ(bpe_ids(open + R"(,"fuse_unk":true})", "xxax"), (std::vector<int32_t>{1, 0, 1}));
  EXPECT_EQ(bpe_ids(open + R"(,"byte_fallback":true})",
                    "\xC3\xA9"
                    "a"),
            (std::vector<int32_t>{2, 3, 0}));
  // A character's fallback bytes are added before the unk_token of an earlier character, as in
  // tokenizers.
  EXPECT_EQ(bpe_ids(open + R"(,"byte_fallback":true})",
                    "x\xC3\xA9"
                    "a"),
            (std::vector<int32_t>{2, 3, 1, 0}));
  EXPECT_EQ(bpe_ids(R"({"type":"BPE","vocab":{"a":0},"merges":[]})", "xax"),
            (std::vector<int32_t>{0}));
}

TEST(BpeTest, TakesAWholeWordFromTheVocabularyWhereMergesAreIgnored) {
  const std::string model =
      R"({"type":"BPE","vocab":{"a":0,"b":1,"abb":2},"merges":[],"ignore_merges":true})";
  EXPECT_EQ(bpe_ids(model, "abb"), (std::vector<int32_t>{2}));
  EXPECT_EQ(bpe_ids(model, "ab"), (std::vector<int32_t>{0, 1}));
}

std::vector<int32_t> ids_with_tokens(const std::string& tokens, const std::string& text) {
  const auto tokenizer = Tokenizer::parse(spec_with("\"added_tokens\":[" + tokens + "]"));
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return (*tokenizer)->encode(text).value_or(std::vector<int32_t>{-1});
}

TEST(AddedTokensTest, TheLongestTokenAtTheLeftmostPlaceWins) {
  const std::string tokens =
      R"({"id":5,"content":"xy"},{"id":6,"content":"xyz"},{"id":7,"content":"yz"})";
  EXPECT_EQ(ids_with_tokens(tokens, "axyzb"), (std::vector<int32_t>{0, 6, 1}));
  EXPECT_EQ(ids_with_tokens(tokens, "axyb"), (std::vector<int32_t>{0, 5, 1}));
  EXPECT_EQ(ids_with_tokens(tokens, "ayzb"), (std::vector<int32_t>{0, 7, 1}));
}

TEST(AddedTokensTest, FlagsTakeBlanksAndWholeWords) {
  const std::string tokens =
      R"({"id":5,"content":"L","lstrip":true},{"id":6,"content":"R","rstrip":true},)"
      R"({"id":7,"content":"W","single_word":true},{"id":8,"content":" "})";
  EXPECT_EQ(ids_with_tokens(tokens, "a\tL b"), (std::vector<int32_t>{0, 5, 8, 1}));
  // The blank is a token itself and matches first, so that fewer blanks are left to take.
  EXPECT_EQ(ids_with_tokens(tokens, "a\t L b"), (std::vector<int32_t>{0, 8, 5, 8, 1}));
  EXPECT_EQ(ids_with_tokens(tokens, "a R\t\nb"), (std::vector<int32_t>{0, 8, 6, 1}));
  EXPECT_EQ(ids_with_tokens(tokens, "aW W."), (std::vector<int32_t>{0, 8, 7}));
}

// A walk from each of 300,000 blanks to the end would take minutes.
TEST(AddedTokensTest, ATokenThatStripsBlanksTakesLinearTime) {
  const std::string tokens = R"({"id":5,"content":" ","rstrip":true})";
  const double begin = thread_seconds();
  EXPECT_EQ(ids_with_tokens(tokens, std::string(300'000, ' ')).size(), 300'000u);
  EXPECT_LT(thread_seconds() - begin, 20);
}

TEST(AddedTokensTest, ATokenListedTwiceHasTheFirstIdAndTheLastFlags) {
  const std::string tokens = R"({"id":5,"content":"<x>","special":true,"normalized":false},)"
                             R"({"id":6,"content":"<y>"},{"id":5,"content":"<x>","rstrip":true})";
  EXPECT_EQ(ids_with_tokens(tokens, "a<x> \tb<y>"), (std::vector<int32_t>{0, 5, 1, 6}));
  const auto tokenizer = Tokenizer::parse(spec_with("\"added_tokens\":[" + tokens + "]"));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_FALSE((*tokenizer)->is_special(5));
  EXPECT_EQ(ids_with_tokens(R"({"id":5,"content":"<x>"},{"id":7,"content":"<x>"})", "<x>"),
            (std::vector<int32_t>{5}));
}

}  // namespace
}  // namespace lockstep
