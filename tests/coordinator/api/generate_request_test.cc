// SPDX-License-Identifier: Apache-2.0
// The conversion of callers' requests to the engine's, on the demo model.
#include "coordinator/api/generate_request.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <limits>
#include <random>
#include <utility>

#include "base/source_dir.h"
#include "base/status.h"
#include "coordinator/api/limits.h"
#include "tests/fuzz/generate_request_input.h"
#include "tests/support/files/temp_folder.h"
#include "tests/support/processor_time.h"

namespace lockstep {
namespace {

class GenerateRequestTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto model = Model::open({});
    ASSERT_TRUE(model.ok()) << model.status();
    model_ = *std::move(model);
    message_.set_prompt("Once upon a time");
  }

  EngineRequest accepted() {
    absl::StatusOr<EngineRequest> request = to_request(message_, *model_);
    EXPECT_TRUE(request.ok()) << request.status();
    return request.ok() ? *std::move(request) : EngineRequest();
  }
  void expect_refused(const std::string& text) {
    const absl::Status status = to_request(message_, *model_).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_NE(message_of(status).find(text), std::string::npos) << status;
    EXPECT_EQ(message_of(status).find('\n'), std::string::npos) << status;
  }

  std::unique_ptr<Model> model_;
  v1::GenerateRequest message_;
};

TEST_F(GenerateRequestTest, UnsetFieldsTakeTheDefaults) {
  const EngineRequest request = accepted();
  EXPECT_GT(request.prompt_ids.size(), 1u);
  EXPECT_EQ(request.max_tokens, model_->generation_config().max_new_tokens.value_or(128));
  EXPECT_EQ(request.n, 1);
  EXPECT_EQ(request.logprobs, -1);
  EXPECT_EQ(request.sampling.top_k, 0);
  EXPECT_FALSE(request.stop_ids.empty());  // The model's own end token.
  EXPECT_FALSE(request.id.empty());
  EXPECT_NE(accepted().id, request.id);
}

TEST_F(GenerateRequestTest, TheServersDefaultsOverrideThoseOfTheModel) {
  const RequestDefaults defaults = {
      .sampling = R"({"temperature": 0.25, "presence_penalty": 0.5, "frequency_penalty": -0.5})",
      .max_tokens = 77};
  auto model = Model::open({.defaults = defaults});
  ASSERT_TRUE(model.ok()) << model.status();
  model_ = *std::move(model);
  const EngineRequest request = accepted();
  EXPECT_EQ(request.sampling.temperature, 0.25f);
  EXPECT_EQ(request.sampling.presence_penalty, 0.5f);
  EXPECT_EQ(request.sampling.frequency_penalty, -0.5f);
  EXPECT_EQ(request.max_tokens, 77);
  message_.set_presence_penalty(1);
  message_.set_max_tokens(3);
  EXPECT_EQ(accepted().sampling.presence_penalty, 1);
  EXPECT_EQ(accepted().max_tokens, 3);
}

TEST_F(GenerateRequestTest, EachRowOfPromptEmbedsNeedsAPromptIdOfMinusOne) {
  message_.clear_prompt();
  for (const int32_t id : {5, -1, -1}) message_.mutable_prompt_ids()->add_ids(id);
  expect_refused("prompt_ids");
  message_.set_prompt_embeds(std::string(2 * 192 * sizeof(float), '\0'));
  expect_refused("--prompt-embeds");

  auto model = Model::open({.path = "", .takes_prompt_embeds = true});
  ASSERT_TRUE(model.ok()) << model.status();
  model_ = *std::move(model);
  EXPECT_EQ(accepted().prompt_embeds, std::vector<float>(2 * 192));
  message_.set_prompt_logprobs(0);
  expect_refused("log-probabilities");
  message_.clear_prompt_logprobs();
  message_.mutable_prompt_embeds()->pop_back();
  expect_refused("must be 2 rows");
  message_.set_prompt_embeds("");
  expect_refused("must be 2 rows");
  const float bad = std::numeric_limits<float>::quiet_NaN();
  std::string rows(2 * 192 * sizeof(float), '\0');
  std::memcpy(rows.data() + 193 * sizeof(float), &bad, sizeof bad);
  message_.set_prompt_embeds(rows);
  expect_refused("row 1, column 1");
  message_.mutable_prompt_ids()->set_ids(0, -2);
  expect_refused("prompt_ids");
}

TEST_F(GenerateRequestTest, SetFieldsAreUsed) {
  message_.set_max_tokens(7);
  message_.set_min_tokens(3);
  message_.set_temperature(0.5f);
  message_.set_top_k(4);
  message_.set_top_p(0.75f);
  message_.set_min_p(0.25f);
  message_.set_repetition_penalty(2);
  message_.set_presence_penalty(1);
  message_.set_frequency_penalty(-1);
  (*message_.mutable_logit_bias())[9] = -2;
  message_.set_seed(11);
  message_.add_stop("end");
  message_.add_stop_ids(12);
  message_.set_ignore_eos(true);
  message_.set_n(2);
  message_.set_logprobs(0);
  message_.set_request_id("mine");
  const EngineRequest request = accepted();
  EXPECT_EQ(request.max_tokens, 7);
  EXPECT_EQ(request.min_tokens, 3);
  EXPECT_EQ(request.sampling.temperature, 0.5f);
  EXPECT_EQ(request.sampling.top_k, 4);
  EXPECT_EQ(request.sampling.top_p, 0.75f);
  EXPECT_EQ(request.sampling.min_p, 0.25f);
  EXPECT_EQ(request.sampling.repetition_penalty, 2);
  EXPECT_EQ(request.sampling.presence_penalty, 1);
  EXPECT_EQ(request.sampling.frequency_penalty, -1);
  EXPECT_EQ(request.sampling.logit_bias, (std::map<int32_t, float>{{9, -2}}));
  EXPECT_EQ(request.seed, 11u);
  EXPECT_EQ(request.stop, std::vector<std::string>{"end"});
  EXPECT_EQ(request.stop_ids, std::vector<int32_t>{12});
  EXPECT_EQ(request.n, 2);
  EXPECT_EQ(request.logprobs, 0);
  EXPECT_EQ(request.id, "mine");
}

TEST_F(GenerateRequestTest, APromptIsCutToItsLastOrFirstTokens) {
  const std::vector<int32_t> all = accepted().prompt_ids;
  ASSERT_GT(all.size(), 1u);
  message_.set_truncate_prompt_tokens(1);
  EXPECT_EQ(accepted().prompt_ids, std::vector<int32_t>{all.back()});
  message_.set_truncation_side("right");
  EXPECT_EQ(accepted().prompt_ids, std::vector<int32_t>{all.front()});
  message_.set_truncation_side("up");
  expect_refused("truncation_side: must be left or right, found up");
  message_.clear_truncation_side();
  message_.set_truncate_prompt_tokens(0);
  expect_refused("truncate_prompt_tokens: must be -1, or 1 or more, found 0");
  message_.clear_prompt();
  for (int i = 0; i < 2000; ++i) message_.mutable_prompt_ids()->add_ids(7);
  message_.set_truncate_prompt_tokens(-1);
  message_.set_max_tokens(24);
  EXPECT_EQ(accepted().prompt_ids.size(), 1000u) << "of 1024";
  message_.set_max_tokens(5000);
  EXPECT_EQ(accepted().prompt_ids.size(), 1023u);
  message_.set_prompt_embeds("a");
  expect_refused("truncate_prompt_tokens: must not be sent with prompt_embeds");
}

TEST_F(GenerateRequestTest, ABadWordIsTheTokensOfItsTextWithAndWithoutABlank) {
  const Tokenizer& tokenizer = *model_->tokenizer();
  const EncodeOptions plain = {.add_special = false};
  message_.add_bad_words(" was");
  const std::vector<int32_t> word = *tokenizer.encode("was", plain);
  const std::vector<int32_t> later = *tokenizer.encode(" was", plain);
  std::vector<std::vector<int32_t>> expected = {word};
  if (later.size() == word.size()) expected.push_back(later);
  EXPECT_EQ(accepted().sampling.bad_words, expected);
  message_.add_bad_words("\t ");
  expect_refused("bad_words: must be words, found only blanks");
  message_.add_bad_words("");
  expect_refused("bad_words: must have 1 to 256 bytes, found 0");
}

TEST_F(GenerateRequestTest, IdsOfLogprobsAndAllowedIdsMustBeInTheVocabulary) {
  message_.add_allowed_ids(3);
  message_.add_logprob_ids(4);
  expect_refused("logprob_ids: must be sent with logprobs, found none");
  message_.set_logprobs(2);
  EXPECT_EQ(accepted().sampling.allowed_ids, std::vector<int32_t>{3});
  EXPECT_EQ(accepted().logprob_ids, std::vector<int32_t>{4});
  message_.add_logprob_ids(3072);
  expect_refused("logprob_ids: must be token ids of 0 to 3071, found 3072");
  message_.clear_logprob_ids();
  message_.add_allowed_ids(-1);
  expect_refused("allowed_ids: must be token ids of 0 to 3071, found -1");
}

TEST_F(GenerateRequestTest, ABatchReadsTheListsThatItsPromptsShareOnce) {
  for (int i = 0; i < 1 << 20; ++i) message_.add_allowed_ids(3 + i % 1000);
  for (int i = 0; i < 1024; ++i) message_.add_bad_words("word" + std::to_string(i));
  (*message_.mutable_logit_bias())[5] = 1;
  message_.add_stop("end");
  message_.add_stop_ids(7);
  message_.set_logprobs(1);
  message_.add_logprob_ids(9);
  message_.clear_prompt();
  RequestBatch batch(message_, *model_);
  double last = thread_seconds();
  double first_cost = 0;
  for (int prompt = 0; prompt < 200; ++prompt) {
    if (prompt == 1) first_cost = thread_seconds() - std::exchange(last, thread_seconds());
    v1::GenerateRequest own;
    own.mutable_prompt_ids()->add_ids(prompt);
    const absl::StatusOr<EngineRequest> one = batch.add(own);
    ASSERT_TRUE(one.ok()) << one.status();
    EXPECT_EQ(one->prompt_ids, std::vector<int32_t>{prompt});
    EXPECT_EQ(one->sampling.allowed_ids.size(), 1000u);
    EXPECT_GE(one->sampling.bad_words.size(), 1024u);
    EXPECT_EQ(one->sampling.logit_bias.at(5), 1);
    EXPECT_EQ(one->stop, std::vector<std::string>{"end"});
    EXPECT_EQ(one->stop_ids.front(), 7);
    EXPECT_EQ(one->logprob_ids, std::vector<int32_t>{9});
  }
  EXPECT_LT(thread_seconds() - last, 20 * first_cost) << "the cost of 199 prompts";
}

TEST_F(GenerateRequestTest, ChatsAndPromptsEndAtTheirOwnEndTokens) {
  const TempFolder folder;
  for (const char* name : {"config.json", "tokenizer.json", "model.safetensors"}) {
    std::filesystem::create_symlink(std::filesystem::path(LOCKSTEP_SOURCE_DIR) / "demo" / name,
                                    folder.path() / name);
  }
  std::ofstream(folder.path() / "tokenizer_config.json") << R"({"eos_token": "<|story|>"})";
  std::ofstream(folder.path() / "generation_config.json") << R"({"eos_token_id": 1})";
  std::ofstream(folder.path() / "chat_template.jinja") << "{{ messages[0].content }}<|end|>";
  auto model = Model::open({.path = folder.path()});
  ASSERT_TRUE(model.ok()) << model.status();
  model_ = *std::move(model);
  EXPECT_EQ(accepted().stop_ids, (std::vector<int32_t>{1, 0}));
  message_.add_stop_ids(9);
  EXPECT_EQ(accepted().stop_ids, (std::vector<int32_t>{9, 1, 0}));
  message_.set_ignore_eos(true);
  EXPECT_EQ(accepted().stop_ids, (std::vector<int32_t>{9}));
  message_.clear_ignore_eos();
  message_.clear_prompt();
  v1::ChatMessage* turn = message_.mutable_chat()->add_messages();
  turn->set_role("user");
  turn->set_content("Once");
  EXPECT_EQ(accepted().stop_ids, (std::vector<int32_t>{9, 1}));
}

TEST_F(GenerateRequestTest, ARequestMustHaveExactlyOnePrompt) {
  message_.mutable_prompt_ids()->add_ids(5);
  expect_refused("must be one of prompt, prompt_ids and chat, found several");
  message_.clear_prompt();
  EXPECT_EQ(accepted().prompt_ids, std::vector<int32_t>{5});
  message_.clear_prompt_ids();
  expect_refused("must be one of prompt, prompt_ids and chat, found none");
  message_.mutable_prompt_ids();
  expect_refused("the prompt: must have at least one token");
}

TEST_F(GenerateRequestTest, IdsMustBeInTheVocabulary) {
  const int32_t vocabulary = static_cast<int32_t>(model_->config().vocab_size);
  message_.clear_prompt();
  for (const int32_t bad : {-1, vocabulary}) {
    message_.mutable_prompt_ids()->clear_ids();
    message_.mutable_prompt_ids()->add_ids(bad);
    expect_refused("prompt_ids: must be token ids of 0 to");
    message_.mutable_prompt_ids()->set_ids(0, vocabulary - 1);
    message_.add_stop_ids(bad);
    expect_refused("stop_ids: must be token ids of 0 to");
    message_.clear_stop_ids();
    (*message_.mutable_logit_bias())[bad] = 1;
    expect_refused("logit_bias: must be token ids of 0 to");
    message_.clear_logit_bias();
    accepted();
  }
}

// The invalid text shows that it was not tokenized: no tokenizer accepts it.
TEST_F(GenerateRequestTest, APromptThatCannotFitIsRefusedBeforeItIsTokenized) {
  const size_t max = model_->max_context() * kPromptBytesPerToken;
  message_.set_prompt(std::string(max, '\xff'));
  expect_refused("fewer than " + std::to_string(max) + " bytes");
  message_.set_prompt(std::string(max - 1, '\xff'));
  expect_refused("UTF-8");
}

TEST_F(GenerateRequestTest, ALineOfJsonBecomesAGenerateRequest) {
  bool logits = false;
  const auto message = generate_request_from_json(
      R"({"prompt_ids": [1, 2], "max_tokens": 3, "logits": true})", &logits);
  ASSERT_TRUE(message.ok()) << message.status();
  EXPECT_TRUE(logits);
  EXPECT_EQ(message->prompt_ids().ids_size(), 2);
  EXPECT_EQ(message->max_tokens(), 3);
  for (const char* bad : {"", "[]", "{\"no_such\": 1}", "{\"logits\": 1}", "{\"prompt\": 5"}) {
    EXPECT_FALSE(generate_request_from_json(bad, &logits).ok()) << bad;
  }
}

// The same checks as the fuzzer's: mutations of a valid message, seed 1.
TEST_F(GenerateRequestTest, MutatedBytesAreRefusedOrKeepTheLimits) {
  message_.set_n(3);
  message_.add_stop("stop");
  message_.add_stop_ids(4);
  (*message_.mutable_logit_bias())[5] = 6;
  message_.set_temperature(0.5f);
  const std::string good = message_.SerializeAsString();
  std::mt19937 random(1);
  int taken = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes = good;
    for (uint32_t change = random() % 4; change <= 4; ++change) {
      switch (random() % 3) {
        case 0:
          bytes[random() % bytes.size()] = static_cast<char>(random());
          break;
        case 1:
          bytes.insert(random() % bytes.size(), 1, static_cast<char>(random()));
          break;
        default:
          if (bytes.size() > 2) bytes.erase(random() % bytes.size(), 1);
      }
    }
    taken += check_generate_request_input(bytes, *model_);
  }
  EXPECT_GT(taken, 100);
}

}  // namespace
}  // namespace lockstep
