// SPDX-License-Identifier: Apache-2.0
// How a model uses the small files of its folder, tested on copies of the demo.
#include "coordinator/model/model.h"

#include <fstream>

#include "base/json.h"
#include "base/source_dir.h"
#include "base/status.h"
#include "gmock/gmock.h"
#include "tests/support/files/temp_folder.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// The demo's config and weights; its tokenizer has <|story|>, id 0, and <|end|>, id 1.
class ModelTest : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"config.json", "tokenizer.json", "model.safetensors"}) {
      fs::create_symlink(fs::path(LOCKSTEP_SOURCE_DIR) / "demo" / name, folder_.path() / name);
    }
  }
  void write(const char* name, const std::string& text) {
    std::ofstream(folder_.path() / name, std::ios::binary) << text;
  }
  std::unique_ptr<Model> open() {
    auto model = Model::open({.path = folder_.path()});
    EXPECT_TRUE(model.ok()) << model.status();
    return model.ok() ? *std::move(model) : nullptr;
  }

  const TempFolder folder_;
};

TEST_F(ModelTest, TheTokenizersEndTokenAndTheConfiguredOneEndAnswers) {
  write("tokenizer_config.json", R"({"eos_token":"<|story|>"})");
  write("generation_config.json", R"({"eos_token_id":1})");
  for (const char* source : {"", "{{ messages[-1].content }}", "{{ eos_token }}<|end|>",
                             "<|story|><|end|>", "<|story|>"}) {
    write("chat_template.jinja", source);
    const auto model = open();
    ASSERT_NE(model, nullptr);
    EXPECT_THAT(model->end_ids(false), ElementsAre(1, 0)) << source;
    EXPECT_THAT(model->end_ids(true), ElementsAre(1, 0)) << source;
  }
}

TEST_F(ModelTest, TheTokenizersEndTokenEndsNoChatIfTheTemplateWritesAnotherOne) {
  write("tokenizer_config.json", R"({"eos_token":"<|story|>"})");
  write("generation_config.json", R"({"eos_token_id":1})");
  write("chat_template.jinja", "{{ messages[-1].content }}<|end|>");
  const auto model = open();
  ASSERT_NE(model, nullptr);
  EXPECT_THAT(model->end_ids(false), ElementsAre(1, 0));
  EXPECT_THAT(model->end_ids(true), ElementsAre(1));
}

TEST_F(ModelTest, TheTokenizersEndTokenIsTheOnlyOneIfNoneIsConfigured) {
  fs::remove(folder_.path() / "config.json");
  std::ifstream demo(LOCKSTEP_SOURCE_DIR "/demo/config.json");
  Json config = Json::parse(demo);
  config["eos_token_id"] = nullptr;
  write("config.json", config.dump());
  write("special_tokens_map.json", R"({"eos_token":"<|end|>"})");
  const auto model = open();
  ASSERT_NE(model, nullptr);
  EXPECT_THAT(model->end_ids(false), ElementsAre(1));
  EXPECT_THAT(model->end_ids(true), ElementsAre(1));
}

TEST_F(ModelTest, AnEndTokenBeyondTheModelsVocabularyEndsNothing) {
  write("tokenizer_config.json", R"({"eos_token":"<|new|>"})");
  write("generation_config.json", R"({"eos_token_id":1})");
  const auto model = open();
  ASSERT_NE(model, nullptr);
  EXPECT_EQ(model->tokenizer()->eos_id(), model->config().vocab_size);
  EXPECT_THAT(model->end_ids(false), ElementsAre(1));
}

// The demo's tokenizer has 3,072 tokens.
TEST_F(ModelTest, ATokenizerWithFarFewerTokensThanTheEmbeddingHasRowsIsAWarning) {
  std::ifstream demo(LOCKSTEP_SOURCE_DIR "/demo/config.json");
  Json config = Json::parse(demo);
  fs::remove(folder_.path() / "config.json");
  const auto warnings = [&](int64_t rows) {
    config["vocab_size"] = rows;
    write("config.json", config.dump());
    const auto model = Model::open({.path = folder_.path(), .random_weights = 1});
    EXPECT_TRUE(model.ok()) << model.status();
    return (*model)->warnings();
  };
  EXPECT_THAT(warnings(3413), IsEmpty());
  EXPECT_THAT(warnings(3414),
              ElementsAre(HasSubstr("has ids up to 3071, and the model's embedding 3414 rows: ")));
}

TEST_F(ModelTest, ATagOfTheTemplateThatIsNotATokenIsAWarning) {
  const std::string turns = "{% for m in messages %}{{ m.content }}{% endfor %}";
  write("chat_template.jinja", "<|end|>" + turns);
  EXPECT_THAT(open()->warnings(), IsEmpty());
  write("chat_template.jinja", "<|a|><|b|>" + turns + "<|c|><|d|><|e|>");
  EXPECT_THAT(open()->warnings(),
              ElementsAre(HasSubstr("the chat template writes <|a|>, <|b|>, <|c|> and 2 more, "
                                    "for which the tokenizer has no token")));
  write("tokenizer_config.json", R"({"extra_special_tokens":["<|a|>","<|b|>","<|c|>"]})");
  EXPECT_THAT(open()->warnings(), ElementsAre(HasSubstr("writes <|d|>, <|e|>, for which"),
                                              HasSubstr("a prompt with <|a|> or a later one")));
}

TEST_F(ModelTest, ATemplateThatShowsOnlyToolsOrOnlyCallsIsAWarning) {
  const std::string turns =
      "{% for m in messages %}{% if m.role == 'tool' and refuses %}{{ raise_exception('no') }}"
      "{% endif %}{{ m.content }}";
  const std::string end = "{% endfor %}";
  const std::string tools = "{{ tools|tojson }}";
  write("chat_template.jinja", turns + end);
  EXPECT_THAT(open()->warnings(), IsEmpty());
  write("chat_template.jinja", "{% set refuses = true %}" + turns + end);
  EXPECT_THAT(open()->warnings(), IsEmpty());
  write("chat_template.jinja", turns + "{{ m.tool_calls }}" + end);
  EXPECT_THAT(open()->warnings(), ElementsAre(HasSubstr("shows tool calls, but no tools")));
  for (const char* refuses : {"", "{% set refuses = true %}"}) {
    write("chat_template.jinja", refuses + turns + end + tools);
    EXPECT_THAT(open()->warnings(), ElementsAre(HasSubstr("shows tools, but no tool calls")));
  }
}

TEST_F(ModelTest, AForeignTokenizerIsNamedIfTokenizerJsonIsMissing) {
  fs::remove(folder_.path() / "tokenizer.json");
  write("tokenizer.model", "");
  const auto model = open();
  ASSERT_NE(model, nullptr);
  EXPECT_EQ(model->tokenizer(), nullptr);
  EXPECT_THAT(model->without_tokenizer(),
              HasSubstr(model->name() + " has no tokenizer.json, and tokenizer.model is not read"));
}

TEST_F(ModelTest, MissingWeightsAreReportedFirst) {
  fs::remove(folder_.path() / "model.safetensors");
  write("model.gguf", "GGUF");
  fs::remove(folder_.path() / "config.json");
  write("config.json", R"({"model_type":"llama"})");
  const auto model = Model::open({.path = folder_.path()});
  EXPECT_THAT(message_of(model.status()), HasSubstr("holds model.gguf: GGUF"));
}

}  // namespace
}  // namespace lockstep
