// SPDX-License-Identifier: Apache-2.0
// Damaged, hostile and unsupported files: the error is one line that names the fault.
#include <algorithm>
#include <random>

#include "gmock/gmock.h"
#include "tests/coordinator/text/test_data.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace lockstep {
namespace {

using testing::HasSubstr;

std::string error_of(const std::string& tokenizer_json) {
  const auto tokenizer = Tokenizer::parse(tokenizer_json);
  if (tokenizer.ok()) return "no error";
  const std::string message = message_of(tokenizer.status());
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  EXPECT_TRUE(message.starts_with("tokenizer.json: ")) << message;
  return message;
}

TEST(TokenizerFileTest, NamesTheFolderAndFileThatIsMissing) {
  const auto tokenizer = Tokenizer::load("/no/such/folder");
  ASSERT_FALSE(tokenizer.ok());
  EXPECT_THAT(message_of(tokenizer.status()), HasSubstr("/no/such/folder/tokenizer.json"));
}

TEST(TokenizerFileTest, AcceptsTheSmallestFile) { EXPECT_EQ(error_of(spec_with("")), "no error"); }

TEST(TokenizerFileTest, NamesAPartThatIsNotSupported) {
  for (const std::string part : {"normalizer", "pre_tokenizer", "decoder", "post_processor"}) {
    const std::string error = error_of(spec_with("\"" + part + R"(":{"type":"Foo"})"));
    EXPECT_THAT(error, HasSubstr(part + " \"Foo\" is not supported; supported: "));
    const std::string nested = error_of(
        spec_with("\"" + part +
                  R"(":{"type":"Sequence","normalizers":[{"type":"Bar"}],"decoders":[{"type":)" +
                  R"("Bar"}],"pretokenizers":[{"type":"Bar"}],"processors":[{"type":"Bar"}]})"));
    EXPECT_THAT(nested, HasSubstr("\"Bar\" is not supported"));
    EXPECT_THAT(error_of(spec_with("\"" + part + "\":[]")), HasSubstr(part + ": type: "));
    EXPECT_THAT(error_of(spec_with("\"" + part + "\":{}")),
                HasSubstr("type: must be a string, found nothing"));
  }
  EXPECT_THAT(error_of(R"({"model":{"type":"Unigram","vocab":[]}})"), HasSubstr("\"Unigram\""));
  EXPECT_THAT(error_of("{}"), HasSubstr("model"));
  EXPECT_THAT(error_of("[]"), HasSubstr("found an array"));
}

TEST(TokenizerFileTest, RefusesAVocabularyThatIsNotOneToOne) {
  const auto with_vocabulary = [](const std::string& vocabulary) {
    return error_of(R"({"model":{"type":"BPE","merges":[],"vocab":)" + vocabulary + "}}");
  };
  EXPECT_THAT(with_vocabulary(R"({"a":0,"a":1})"), HasSubstr("appears twice"));
  EXPECT_THAT(with_vocabulary(R"({"a":0,"b":0})"), HasSubstr("same id 0"));
  for (const char* id :
       {"-1", "1.5", "1000000", "18446744073709551615", "\"1\"", "null", "1e400"}) {
    EXPECT_NE(with_vocabulary(std::string(R"({"a":)") + id + "}"), "no error") << id;
  }
  EXPECT_THAT(with_vocabulary(R"({"a":999999})"), HasSubstr("too many ids have no token"));
  EXPECT_THAT(with_vocabulary("[]"), HasSubstr("\"vocab\" must be an object"));
}

TEST(TokenizerFileTest, RefusesMergesOfUnknownTokens) {
  const auto with_merges = [](const std::string& merges) {
    return error_of(R"({"model":{"type":"BPE","vocab":{"a":0,"b":1},"merges":)" + merges + "}}");
  };
  EXPECT_THAT(with_merges(R"(["a b"])"), HasSubstr("\"ab\", which is not in the vocabulary"));
  EXPECT_THAT(with_merges(R"([["a","c"]])"), HasSubstr("\"c\", which is not in the vocabulary"));
  EXPECT_THAT(with_merges(R"(["ab"])"), HasSubstr("two tokens and one blank"));
  EXPECT_THAT(with_merges("[1]"), HasSubstr("merge 0"));
  EXPECT_THAT(with_merges("{}"), HasSubstr("\"merges\" must be a list"));
}

TEST(TokenizerFileTest, RefusesModelOptionsThatChangeTheIds) {
  EXPECT_THAT(error_of(spec_with("", R"("dropout":0.1)")), HasSubstr("dropout"));
  EXPECT_THAT(error_of(spec_with("", R"("continuing_subword_prefix":"##")")), HasSubstr("\"##\""));
  EXPECT_THAT(error_of(spec_with("", R"("end_of_word_suffix":"</w>")")), HasSubstr("</w>"));
  EXPECT_EQ(error_of(spec_with("", R"("dropout":0.0,"end_of_word_suffix":"")")), "no error");
}

TEST(TokenizerFileTest, RefusesAddedTokensThatContradictTheVocabulary) {
  const auto with_token = [](const std::string& token) {
    return error_of(spec_with("\"added_tokens\":[" + token + "]"));
  };
  EXPECT_THAT(with_token(R"({"id":1,"content":"a"})"), HasSubstr("two ids"));
  EXPECT_THAT(with_token(R"({"id":1,"content":"z"})"), HasSubstr("id 1 of \"b\""));
  EXPECT_THAT(with_token(R"({"id":9,"content":""})"), HasSubstr("empty"));
  EXPECT_THAT(with_token(R"({"id":9,"content":"y"},{"id":9,"content":"z"})"), HasSubstr("same id"));
  EXPECT_THAT(with_token(R"({"id":1000000,"content":"z"})"), HasSubstr("must be 0 to 999999"));
}

TEST(TokenizerFileTest, RefusesAFileThatIsNotJsonOrTooDeep) {
  EXPECT_THAT(error_of(""), HasSubstr("not valid JSON"));
  EXPECT_THAT(error_of("{\"a\":\xFF}"), HasSubstr("not valid JSON"));
  EXPECT_THAT(error_of("{} {}"), HasSubstr("not valid JSON"));
  EXPECT_THAT(error_of(std::string(100'000, '[')), HasSubstr("more than 64"));
}

TEST(TokenizerFileTest, SaysWhatIsWrongWithAPattern) {
  for (const char* pattern :
       {R"([a)", R"(\\p{Foo})", "(", "a**(", R"([[:foo:]])", R"(\\2(a))", R"(\\)", "[z-a]"}) {
    std::string split = R"("pre_tokenizer":{"type":"Split","behavior":"Isolated","pattern":)";
    split.append(R"({"Regex":")").append(pattern).append("\"}}");
    const std::string error = error_of(spec_with(split));
    EXPECT_THAT(error, HasSubstr("pre_tokenizer \"Split\": pattern \"")) << pattern;
  }
}

TEST(TokenizerFileTest, APatternThatTakesTooLongIsAnError) {
  const auto tokenizer = Tokenizer::parse(
      spec_with(R"("pre_tokenizer":{"type":"Split","behavior":"Isolated","pattern":)"
                R"({"Regex":"(a*)*\\1$"}})"));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  const auto ids = (*tokenizer)->encode(std::string(5000, 'a') + "b");
  ASSERT_FALSE(ids.ok());
  EXPECT_EQ(ids.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE((*tokenizer)->encode("ab").ok());
}

TEST(TokenizerFileTest, RefusesReplacementsThatGrowWithoutEnd) {
  std::string steps;
  for (int i = 0; i < 40; ++i) {
    steps += std::string(i > 0 ? "," : "") +
             R"({"type":"Replace","pattern":{"String":"a"},"content":"aa"})";
  }
  EXPECT_THAT(error_of(spec_with(R"("decoder":{"type":"Sequence","decoders":[)" + steps + "]}")),
              HasSubstr("times as long"));
  const auto tokenizer = Tokenizer::parse(
      spec_with(R"("normalizer":{"type":"Sequence","normalizers":[)" + steps + "]}"));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ((*tokenizer)->encode("a").status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(TokenizerFileTest, RefusesALastReplacementThatGrowsBeyondTheLimit) {
  const auto tokenizer = Tokenizer::parse(
      spec_with(R"("normalizer":{"type":"Replace","pattern":{"String":"a"},"content":")" +
                std::string(1000, 'b') + "\"}"));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_TRUE((*tokenizer)->encode("aaaa").ok());
  const auto ids = (*tokenizer)->encode("aaaaa");
  EXPECT_EQ(ids.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(message_of(ids.status()), HasSubstr("the limit is 4416"));
}

std::string own_file(const char* name) { return read_text(own_tokenizer(name) / "tokenizer.json"); }

void feed(const std::string& input) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()), input.size());
}

// The text that the fuzzer's function encodes with every tokenizer that loads.
const std::string kText = std::string(1, '\0') + "Hello <s>  world\n\xE4\xBD\xA0 12 <|endoftext|>";

TEST(TokenizerFileTest, AFileTruncatedAnywhereIsAnError) {
  const std::string file = spec_with(
      R"("normalizer":{"type":"NFC"},"decoder":{"type":"ByteLevel"},"added_tokens":)"
      R"([{"id":5,"content":"<s>","special":true}],"pre_tokenizer":{"type":"ByteLevel"})");
  EXPECT_EQ(error_of(file), "no error");
  for (size_t bytes = 0; bytes < file.size(); ++bytes) {
    EXPECT_NE(error_of(file.substr(0, bytes)), "no error") << bytes;
  }
}

TEST(TokenizerFileTest, AFileOfThisRepositoryTruncatedAnywhereIsAnError) {
  for (const char* name : {"byte_level", "sentencepiece_like", "llama3_like", "qwen2_like"}) {
    std::string file = own_file(name);
    ASSERT_FALSE(file.empty());
    while (file.back() == '\n') file.pop_back();
    // Cut one file at every byte; cut the others, which are like it, at every sixteenth.
    const size_t step = std::string_view(name) == "llama3_like" ? 1 : 16;
    for (size_t bytes = 0; bytes < file.size(); bytes += step) {
      ASSERT_FALSE(Tokenizer::parse(std::string_view(file).substr(0, bytes)).ok()) << bytes;
    }
  }
}

TEST(TokenizerFileTest, AMessageStaysOnOneLineForAnyNameInTheFile) {
  EXPECT_THAT(error_of(spec_with(R"("decoder":{"type":"a\n\u0000b"})")), HasSubstr("a\\x0a\\x00b"));
}

TEST(TokenizerFileTest, AMutatedFileIsAnErrorOrATokenizer) {
  constexpr uint32_t kSeed = 20261121;
  std::mt19937 random(kSeed);
  std::printf("seed %u\n", kSeed);
  const std::vector<std::string> words = {"null",  "-1",        "1e9",     "\"\"",  "[]",
                                          "{}",    "true",      "\\u0000", "Regex", "Fuse",
                                          "Strip", "ByteLevel", "first",   "999999"};
  int loaded = 0;
  for (const char* name : {"byte_level", "sentencepiece_like", "llama3_like", "qwen2_like"}) {
    const std::string file = own_file(name);
    for (int round = 0; round < 500; ++round) {
      std::string mutated = file;
      for (uint32_t changes = 1 + random() % 3; changes > 0; --changes) {
        // Half of the changes are in the first 2,500 bytes, which describe the normalizer and the
        // other parts. The other changes are mostly in the vocabulary.
        const size_t range =
            random() % 2 == 0 ? std::min<size_t>(mutated.size(), 2500) : mutated.size();
        const size_t at = random() % range;
        switch (random() % 4) {
          case 0:
            mutated[at] = static_cast<char>(random());
            break;
          case 1:
            mutated.erase(at, 1 + random() % 20);
            break;
          case 2:
            mutated.insert(at, words[random() % words.size()]);
            break;
          default:
            mutated.insert(at, mutated.substr(random() % mutated.size(), random() % 60));
            break;
        }
      }
      loaded += Tokenizer::parse(mutated).ok() ? 1 : 0;
      feed(mutated + kText);
    }
  }
  EXPECT_GT(loaded, 50);  // Otherwise the changes are too wild to get past the parser.
  EXPECT_LT(loaded, 1900);
}

}  // namespace
}  // namespace lockstep
