// SPDX-License-Identifier: Apache-2.0
// The files beside tokenizer.json name tokens. Encoding, decoding and templates have these tokens
// as AutoTokenizer makes them.
#include "coordinator/text/token_files.h"

#include "coordinator/text/template/chat_template.h"
#include "gmock/gmock.h"
#include "tests/coordinator/text/test_data.h"
#include "tests/support/files/temp_folder.h"

namespace lockstep {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

constexpr char kSpec[] = R"({"model":{"type":"BPE","merges":[],"vocab":{"a":0,"<":1,"x":2,">":3}},
  "added_tokens":[{"id":4,"content":"<e>","special":true}]})";

std::unique_ptr<Tokenizer> tokenizer_of(const std::string& spec,
                                        const absl::StatusOr<TokenFiles>& files) {
  EXPECT_TRUE(files.ok()) << files.status();
  if (!files.ok()) return nullptr;
  auto parsed = Tokenizer::parse(spec, *files);
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return parsed.ok() ? *std::move(parsed) : nullptr;
}

std::vector<int32_t> plain_ids(const Tokenizer& tokenizer, const std::string& text,
                               bool parse_special = true) {
  const auto ids = tokenizer.encode(text, {.add_special = false, .parse_special = parse_special});
  EXPECT_TRUE(ids.ok()) << ids.status();
  return ids.ok() ? *ids : std::vector<int32_t>();
}

TEST(TokenFilesTest, TheFilesGiveTheTokensOfTheReference) {
  const nlohmann::ordered_json data =
      nlohmann::ordered_json::parse(read_text(own_tokenizer("token_files.json")));
  EXPECT_GT(data["cases"].size(), 70u);
  for (const auto& test : data["cases"]) {
    SCOPED_TRACE(test["name"].get<std::string>());
    const auto text_of = [&](const char* file) {
      return test["files"].contains(file) ? test["files"][file].dump() : "";
    };
    const auto files =
        merge_token_files(text_of("tokenizer_config.json"), text_of("special_tokens_map.json"),
                          text_of("added_tokens.json"));
    ASSERT_TRUE(files.ok()) << files.status();
    EXPECT_EQ(json(files->names), json(test["names"]));
    nlohmann::ordered_json spec = data["tokenizer"];
    spec["added_tokens"] = test["added_tokens"];
    const auto tokenizer = tokenizer_of(spec.dump(), files);
    ASSERT_NE(tokenizer, nullptr);
    for (const auto& text : test["texts"]) {
      const std::vector<int32_t> ids = text["ids"];
      EXPECT_EQ(plain_ids(*tokenizer, text["text"]), ids) << text;
      EXPECT_EQ(plain_ids(*tokenizer, text["text"], false),
                text["as_text"].get<std::vector<int32_t>>())
          << text;
      EXPECT_EQ(tokenizer->decode(ids), text["decoded"].get<std::string>()) << text;
    }
  }
}

TEST(TokenFilesTest, ATokenMayBeAnObjectInEveryList) {
  const auto tokenizer = tokenizer_of(
      kSpec,
      merge_token_files(R"({"bos_token":{"content":"<s>","rstrip":true}})",
                        R"({"additional_special_tokens":[{"content":"<x>","lstrip":false}]})", ""));
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(tokenizer->bos_id(), 5);
  EXPECT_EQ(plain_ids(*tokenizer, "<s>a<x>"), (std::vector<int32_t>{5, 0, 6}));
  EXPECT_TRUE(tokenizer->is_special(6));
}

TEST(TokenFilesTest, AStatedIdIsUsedIfItIsFree) {
  const auto tokenizer =
      tokenizer_of(kSpec, merge_token_files(R"({"added_tokens_decoder":{"90":{"content":"<x>"},
        "1":{"content":"<y>"},"4":{"content":"<z>"}}})",
                                            "", ""));
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(tokenizer->token_id("<y>"), 5);  // The stated id is another token's.
  EXPECT_EQ(tokenizer->token_id("<z>"), 6);
  EXPECT_EQ(tokenizer->token_id("<x>"), 90);
  EXPECT_EQ(tokenizer->vocab_size(), 91);
}

TEST(TokenFilesTest, TheEndTokenIsTheOneThatSpecialTokensMapNames) {
  const auto tokenizer = tokenizer_of(
      kSpec, merge_token_files(R"({"eos_token":"<e>"})", R"({"eos_token":"<x>"})", ""));
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(tokenizer->eos_id(), tokenizer->token_id("<x>"));
}

TEST(TokenFilesTest, AWrongValueIsAnErrorOfOneLineThatNamesFileAndKey) {
  const auto error_of = [](const char* config, const char* map, const char* added) {
    const auto files = merge_token_files(config, map, added);
    EXPECT_FALSE(files.ok());
    EXPECT_EQ(message_of(files.status()).find('\n'), std::string::npos);
    return message_of(files.status());
  };
  EXPECT_EQ(error_of("[]", "", ""), "tokenizer_config.json: must be an object, found an array");
  EXPECT_THAT(error_of("", "{", ""), HasSubstr("special_tokens_map.json: not valid JSON"));
  EXPECT_EQ(error_of("", "", R"({"<x>":-1})"),
            "added_tokens.json: <x>: must be a token id, found an integer (-1)");
  EXPECT_EQ(error_of(R"({"added_tokens_decoder":[]})", "", ""),
            "tokenizer_config.json: added_tokens_decoder: must be an object, found an array");
  EXPECT_EQ(error_of(R"({"added_tokens_decoder":{"five":{"content":"<x>"}}})", "", ""),
            "tokenizer_config.json: added_tokens_decoder: five: the key must be a token id");
  EXPECT_THAT(error_of(R"({"added_tokens_decoder":{"5":{"lstrip":true}}})", "", ""),
              HasSubstr("added_tokens_decoder: 5: must be a text or an object with \"content\""));
  EXPECT_THAT(error_of(R"({"eos_token":{"content":"<x>","rstrip":"yes"}})", "", ""),
              HasSubstr("eos_token: rstrip: must be true or false"));
  EXPECT_THAT(error_of(R"({"extra_special_tokens":[7]})", "", ""),
              HasSubstr("extra_special_tokens: must be a text or an object"));
}

TEST(TokenFilesTest, KeysThatNameNoTokenAreIgnored) {
  const auto files = merge_token_files(
      R"({"add_bos_token":true,"pad_token":null,"unk_token":"","extra_special_tokens":null})", "",
      "");
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_THAT(files->names, ElementsAre(Pair("unk_token", "")));
  EXPECT_TRUE(files->tokens.empty());
}

TEST(TokenFilesTest, AFoldersFilesReachTokenizerAndTemplate) {
  const TempFolder folder;
  const auto write = [&](const char* name, const std::string& text) {
    std::ofstream(folder.path() / name, std::ios::binary) << text;
  };
  write("tokenizer.json", kSpec);
  write("special_tokens_map.json", R"({"bos_token":"<s>","image_token":"<x>"})");
  write("chat_template.jinja", "{{ bos_token }}{{ image_token }}{{ eos_token }}");
  const auto tokenizer = load_tokenizer(folder.path());
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(plain_ids(*tokenizer, "<s><x>"), (std::vector<int32_t>{5, 6}));
  const auto chat = ChatTemplate::load(folder.path());
  ASSERT_TRUE(chat.ok()) << chat.status();
  TemplateInput request;
  request.messages = OrderedJson::array();
  const auto text = chat->render(request, {.tm_mday = 1});
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(text->bytes, "<s><x>");
  write("added_tokens.json", "7");
  const auto refused = Tokenizer::load(folder.path());
  EXPECT_THAT(message_of(refused.status()),
              HasSubstr((folder.path() / "added_tokens.json").string() + ": must be an object"));
}

TEST(TokenFilesTest, APointerOfGitLfsIsNamed) {
  const auto tokenizer = Tokenizer::parse(
      "version https://git-lfs.github.com/spec/v1\noid sha256:0123\nsize 9000000\n");
  EXPECT_EQ(
      message_of(tokenizer.status()),
      "tokenizer.json: it is a Git LFS pointer, not the file: run `git lfs pull` to fetch it");
}

}  // namespace
}  // namespace lockstep
