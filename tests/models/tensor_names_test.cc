// SPDX-License-Identifier: Apache-2.0
// A model whose tensors have other names has the same logits as under its own names.
#include "models/tensor_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/status.h"
#include "models/models.h"
#include "models/tensor_check.h"
#include "tests/models/described_config.h"
#include "tests/models/spelled_tensors.h"
#include "tests/support/files/test_data.h"
#include "tests/support/goldens/golden_case.h"
#include "tests/support/goldens/random_tensors.h"

namespace lockstep {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// A model in tests/data with its tensors, or a model of a config alone with random tensors.
struct Spelled {
  ModelDescription model;
  naive::Tensors tensors;
};

Spelled of_golden(const std::string& name) {
  const GoldenCase golden = load_golden_case("tests/data/goldens/" + name);
  absl::StatusOr<ModelDescription> model = describe_model(golden.folder, {}, 0);
  EXPECT_TRUE(model.ok()) << model.status();
  return {*std::move(model), golden.tensors};
}

Spelled of_config(const std::string& config) {
  absl::StatusOr<ModelDescription> model = describe_config(config);
  EXPECT_TRUE(model.ok()) << model.status();
  naive::Tensors tensors = random_tensors(model->graph, 7);
  return {*std::move(model), std::move(tensors)};
}

std::vector<float> logits_of(const Graph& graph, const naive::Tensors& tensors) {
  const naive::Sequence sequence{.tokens = {5, 9, 17, 33, 11}, .outputs = {4}, .rope_length = 5};
  return naive::interpret(std::span(&graph, 1), tensors, sequence)[0];
}

// A model's graph after it was matched with a checkpoint's tensors, and the messages about them.
struct Read {
  Graph graph;
  std::vector<std::string> said;
  absl::Status found;
};

Read read_from(const ModelDescription& model, const naive::Tensors& tensors) {
  const TempFolder folder;
  write_checkpoint(folder.path(), tensors);
  const absl::StatusOr<Checkpoint> checkpoint = Checkpoint::open(folder.path());
  EXPECT_TRUE(checkpoint.ok()) << checkpoint.status();
  Read read{.graph = model.graph, .said = {}, .found = {}};
  read.said = use_names_of(*checkpoint, model.config, read.graph);
  read.found = check_tensors(*checkpoint, read.graph);
  return read;
}

void expect_same_logits(const Spelled& own, const naive::Tensors& other) {
  ASSERT_NE(own.tensors.size(), 0u);
  const Read read = read_from(own.model, other);
  ASSERT_TRUE(read.found.ok()) << read.found;
  EXPECT_THAT(read.said, IsEmpty());
  EXPECT_EQ(logits_of(read.graph, other), logits_of(own.model.graph, own.tensors));
}

std::vector<std::string> sources_of(const Graph& graph) {
  std::vector<std::string> sources;
  for (const Parameter& parameter : graph.parameters()) {
    for (const program::Piece& piece : parameter.pieces) {
      sources.push_back(piece.ShortDebugString());
    }
  }
  return sources;
}

class StackedTest : public testing::TestWithParam<const char*> {};

TEST_P(StackedTest, SingleExpertsMayBeStoredAsStacks) {
  const Spelled own = of_golden(GetParam());
  const naive::Tensors other = stacked(own.tensors);
  ASSERT_LT(other.size(), own.tensors.size());
  expect_same_logits(own, other);
}

TEST_P(StackedTest, OneLayerMayHaveSingleExpertsAndAnotherAStack) {
  const Spelled own = of_golden(GetParam());
  const naive::Tensors other = stacked(own.tensors, "model.layers.1.");
  ASSERT_LT(other.size(), own.tensors.size());
  expect_same_logits(own, other);
}

INSTANTIATE_TEST_SUITE_P(Families, StackedTest,
                         testing::Values("olmoe", "glm4_moe_groups", "glm4_moe_lite",
                                         "deepseek_v2_groups", "deepseek_v32", "dots1"),
                         [](const auto& test) { return std::string(test.param); });

constexpr char kQwen3Moe[] = R"({"architectures": ["Qwen3MoeForCausalLM"], "vocab_size": 64,
  "hidden_size": 32, "intermediate_size": 48, "moe_intermediate_size": 16, "num_hidden_layers": 2,
  "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "num_experts": 4,
  "num_experts_per_tok": 2, "norm_topk_prob": true, "max_position_embeddings": 64})";

// The stack of gate and up has matrices of 2 * 16 rows and 32 columns.
TEST(TensorNamesTest, AStackOfSquaresIsNotTransposed) {
  const Spelled own = of_config(kQwen3Moe);
  const naive::Tensors other = stacked(own.tensors);
  const naive::Tensor& stack = other.at("model.layers.0.mlp.experts.gate_up_proj");
  ASSERT_EQ(stack.shape, (std::vector<int64_t>{4, 32, 32}));
  expect_same_logits(own, other);
}

// With size 16 the stack of gate and up has square matrices, with size 32 the stack of down. A
// stack of square matrices has the same shape in both orders.
TEST(TensorNamesTest, StacksOfQwen3VlMayHaveInputsFirstOrOutputsFirst) {
  for (const int size : {16, 24, 32}) {
    Json config = Json::parse(kQwen3Moe);
    config["model_type"] = "qwen3_vl_moe_text";
    config["moe_intermediate_size"] = size;
    const Spelled own = of_config(config.dump());
    const std::string gate_up = "model.layers.1.mlp.experts.gate_up_proj";
    ASSERT_EQ(own.tensors.at(gate_up).shape, (std::vector<int64_t>{4, 32, 2 * size}));
    expect_same_logits(own, own.tensors);
    const naive::Tensors each = single(own.tensors, /*transposed=*/true);
    expect_same_logits(own, each);
    const naive::Tensors other = stacked(each);
    ASSERT_EQ(other.at(gate_up).shape, (std::vector<int64_t>{4, 2 * size, 32}));
    expect_same_logits(own, other);
  }
}

TEST(TensorNamesTest, MiniMaxMayHaveTheNamesOfTransformers5) {
  for (const char* name : {"minimax_m2"}) {
    const Spelled own = of_golden(name);
    naive::Tensors other = renamed(own.tensors, "block_sparse_moe", "mlp");
    for (const auto& [from, to] :
         {std::pair{".w1.", ".gate_proj."}, {".w3.", ".up_proj."}, {".w2.", ".down_proj."}}) {
      other = renamed(other, from, to);
    }
    expect_same_logits(own, other);
    expect_same_logits(own, stacked(other));
  }
}

TEST(TensorNamesTest, NemotronHMayHaveTheNamesOfTransformers5) {
  const Spelled own = of_golden("nemotron_h");
  const naive::Tensors other = stacked(renamed(own.tensors, "backbone.", "model."));
  ASSERT_TRUE(other.contains("model.layers.3.mixer.experts.up_proj"));
  expect_same_logits(own, other);
}

TEST(TensorNamesTest, Granite4MayHaveTheNamesOfTransformers5) {
  const Spelled own = of_golden("granite4");
  naive::Tensors other = own.tensors;
  const std::string scope = "block_sparse_moe.";
  for (const auto& [from, to] : {std::pair{"input_linear.weight", "experts.gate_up_proj"},
                                 {"output_linear.weight", "experts.down_proj"},
                                 {"router.layer.weight", "router.weight"}}) {
    other = renamed(other, scope + from, scope + to);
  }
  ASSERT_TRUE(other.contains("model.layers.0.block_sparse_moe.experts.gate_up_proj"));
  expect_same_logits(own, other);
}

TEST(TensorNamesTest, StacksMayBeStoredAsSingleExperts) {
  for (const char* name : {"gemma4_moe", "mistral4", "llama4"}) {
    const Spelled own = of_golden(name);
    const naive::Tensors other = single(own.tensors, /*transposed=*/name == std::string("llama4"));
    ASSERT_GT(other.size(), own.tensors.size()) << name;
    expect_same_logits(own, other);
  }
}

// Llama 4 and GPT-OSS use the same names for stacks with inputs first. Gate and up are square here,
// so their shape does not show the order.
TEST(TensorNamesTest, AFamilysOwnLayoutIsKept) {
  for (const char* config :
       {R"({"architectures": ["Llama4ForCausalLM"], "vocab_size": 64, "hidden_size": 32,
            "intermediate_size": 16, "intermediate_size_mlp": 48, "num_hidden_layers": 1,
            "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
            "num_local_experts": 4, "interleave_moe_layer_step": 1,
            "max_position_embeddings": 64})",
        R"({"architectures": ["GptOssForCausalLM"], "vocab_size": 64, "hidden_size": 32,
            "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 4,
            "num_key_value_heads": 2, "head_dim": 8, "num_local_experts": 4,
            "num_experts_per_tok": 2, "max_position_embeddings": 64})"}) {
    const Spelled own = of_config(config);
    const Read read = read_from(own.model, own.tensors);
    EXPECT_TRUE(read.found.ok()) << read.found;
    EXPECT_EQ(sources_of(read.graph), sources_of(own.model.graph));
  }
}

TEST(TensorNamesTest, AWrapperMayHaveTheOldPrefixOrTheNewOne) {
  for (const char* name : {"mistral3", "gemma3"}) {
    const Spelled own = of_golden(name);
    naive::Tensors other = renamed(own.tensors, "language_model.model.", "model.language_model.");
    other = renamed(other, "language_model.lm_head.", "lm_head.");
    ASSERT_NE(other.begin()->first, own.tensors.begin()->first);
    expect_same_logits(own, other);
    expect_same_logits(own, renamed(own.tensors, "language_model.", ""));
  }
}

TEST(TensorNamesTest, ATextModelMayKeepItsWrappersPrefix) {
  const Spelled own = of_config(kQwen3Moe);
  expect_same_logits(own, renamed(own.tensors, "model.", "model.language_model."));
  expect_same_logits(own, renamed(own.tensors, "model.", ""));
  expect_same_logits(own, stacked(renamed(own.tensors, "model.", "model.language_model.")));
}

// In files with this prefix MLX has added 1 to the weights of norms, so they must not be read as
// they are.
TEST(TensorNamesTest, ThePrefixThatMlxWritesIsNotAccepted) {
  const Spelled own = of_golden("qwen3_vl");
  ASSERT_TRUE(own.tensors.contains("model.language_model.norm.weight"));
  const naive::Tensors other =
      renamed(own.tensors, "model.language_model.", "language_model.model.");
  EXPECT_FALSE(read_from(own.model, other).found.ok());
}

TEST(TensorNamesTest, GptNeoxsHeadHasTwoNames) {
  const Spelled own = of_config(R"({"architectures": ["GPTNeoXForCausalLM"], "vocab_size": 64,
      "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1,
      "num_attention_heads": 4, "max_position_embeddings": 64})");
  expect_same_logits(own, renamed(own.tensors, "embed_out.", "lm_head."));
}

constexpr char kTied[] = R"({"architectures": ["LlamaForCausalLM"], "vocab_size": 64,
  "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1, "num_attention_heads": 4,
  "max_position_embeddings": 64, "tie_word_embeddings": true})";

TEST(TensorNamesTest, ATiedModelWithItsOwnHeadUsesItAndSaysSo) {
  const Spelled tied = of_config(kTied);
  std::string config = kTied;
  const Spelled untied = of_config(config.replace(config.find("true"), 4, "false"));
  const Read read = read_from(tied.model, untied.tensors);
  EXPECT_TRUE(read.found.ok()) << read.found;
  EXPECT_THAT(read.said, ElementsAre(HasSubstr("has a head, lm_head.weight: using it")));
  EXPECT_EQ(logits_of(read.graph, untied.tensors), logits_of(untied.model.graph, untied.tensors));
}

TEST(TensorNamesTest, ATiedModelsOwnHeadMayHaveItsFamilysName) {
  const Json sizes = {{"vocab_size", 64},
                      {"hidden_size", 64},
                      {"intermediate_size", 48},
                      {"num_hidden_layers", 1},
                      {"num_attention_heads", 4},
                      {"num_key_value_heads", 2},
                      {"max_position_embeddings", 64}};
  Json internlm2 = sizes, rwkv = sizes;
  internlm2["architectures"] = {"InternLM2ForCausalLM"};
  rwkv["architectures"] = {"RwkvForCausalLM"};
  for (const char* key : {"num_attention_heads", "num_key_value_heads"}) rwkv.erase(key);
  Json text = sizes;
  text["model_type"] = "internlm2";
  const Json wrapped = {{"architectures", {"InternVLChatModel"}}, {"llm_config", text}};
  const Json chatglm = {{"architectures", {"ChatGLMModel"}},
                        {"padded_vocab_size", 64},
                        {"hidden_size", 64},
                        {"ffn_hidden_size", 48},
                        {"num_layers", 1},
                        {"num_attention_heads", 4},
                        {"seq_length", 64},
                        {"kv_channels", 16}};
  for (const auto& [config, name] : {std::pair{internlm2, "output.weight"},
                                     {wrapped, "language_model.output.weight"},
                                     {chatglm, "transformer.output_layer.weight"},
                                     {rwkv, "head.weight"}}) {
    SCOPED_TRACE(name);
    Json ties = config;
    (ties.contains("llm_config") ? ties["llm_config"] : ties)["tie_word_embeddings"] = true;
    const Spelled untied = of_config(config.dump()), tied = of_config(ties.dump());
    ASSERT_TRUE(untied.tensors.contains(name));
    ASSERT_FALSE(tied.tensors.contains(name));
    const Read read = read_from(tied.model, untied.tensors);
    EXPECT_TRUE(read.found.ok()) << read.found;
    EXPECT_THAT(read.said, ElementsAre(HasSubstr(name)));
    EXPECT_EQ(logits_of(read.graph, untied.tensors), logits_of(untied.model.graph, untied.tensors));
  }
}

TEST(TensorNamesTest, ATiedModelWhoseHeadEqualsItsEmbeddingGivesNoMessage) {
  const Spelled tied = of_config(kTied);
  naive::Tensors both = tied.tensors;
  both["lm_head.weight"] = both.at("model.embed_tokens.weight");
  expect_same_logits(tied, both);
}

TEST(TensorNamesTest, ATiedModelWithOnlyAHeadUsesItAsItsEmbedding) {
  const Spelled tied = of_config(kTied);
  const naive::Tensors other = renamed(tied.tensors, "model.embed_tokens.", "lm_head.");
  const Read read = read_from(tied.model, other);
  EXPECT_TRUE(read.found.ok()) << read.found;
  EXPECT_THAT(read.said, ElementsAre(HasSubstr("lm_head.weight as the embedding, too")));
  EXPECT_EQ(logits_of(read.graph, other), logits_of(tied.model.graph, tied.tensors));
}

TEST(TensorNamesTest, AnUntiedModelWithoutAHeadIsRefusedUnlessItsConfigAlsoSaysTied) {
  std::string config = kTied;
  Spelled untied = of_config(config.replace(config.find("true"), 4, "false"));
  const Spelled tied = of_config(kTied);
  EXPECT_THAT(message_of(read_from(untied.model, tied.tensors).found),
              HasSubstr(": lm_head.weight;"));
  untied.model.config.tie_disputed = true;
  const Read read = read_from(untied.model, tied.tensors);
  EXPECT_TRUE(read.found.ok()) << read.found;
  EXPECT_EQ(logits_of(read.graph, tied.tensors), logits_of(tied.model.graph, tied.tensors));
}

}  // namespace
}  // namespace lockstep
