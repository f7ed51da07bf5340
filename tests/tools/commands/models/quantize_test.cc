// SPDX-License-Identifier: Apache-2.0
// Quantized models as a user sees them: quantize, plan, generate, compare.
#include <cmath>
#include <filesystem>

#include "base/source_dir.h"
#include "tests/tools/commands/json_lines.h"

namespace lockstep::testing {
namespace {

namespace fs = std::filesystem;

const std::string kDemo = LOCKSTEP_SOURCE_DIR "/demo";
constexpr char kText[] = "Once upon a time there was a small fox who lived at the edge of a wood.";

nlohmann::json json_of(const std::vector<std::string>& arguments) {
  const ProcessResult result = run_lockstep(arguments);
  EXPECT_EQ(result.code, 0) << result.err;
  return result.code == 0 ? nlohmann::json::parse(result.out) : nlohmann::json();
}

void expect_refused(const std::vector<std::string>& arguments, const std::string& named) {
  const ProcessResult result = run_lockstep(arguments);
  EXPECT_EQ(result.code, 2) << result.err;
  EXPECT_EQ(lines_said(result.err), 1) << result.err;
  EXPECT_NE(result.err.find(named), std::string::npos) << result.err;
}

std::vector<std::string> generate(const std::string& model, int workers,
                                  const std::vector<std::string>& more = {}) {
  std::vector<std::string> arguments = {
      "generate",      model, "--prompt", kText,      "--max-tokens", "24",
      "--temperature", "0",   "--json",   "--logits", "--workers",    std::to_string(workers),
      "--seed",        "1"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

int64_t weight_bytes(const std::vector<std::string>& arguments) {
  return json_of(arguments)["ranks"][0]["weight_bytes"].get<int64_t>();
}

class QuantizeTest : public ::testing::Test {
 protected:
  // Writes the demo model in `scheme` and returns its folder.
  std::string quantized(const std::string& scheme) const {
    const std::string out = folder_.path() + "/" + scheme;
    const nlohmann::json report = json_of({"quantize", kDemo, out, "--scheme", scheme, "--json"});
    EXPECT_EQ(report["scheme"], scheme);
    EXPECT_LT(report["bytes"].get<int64_t>(), report["bytes_before"].get<int64_t>());
    return out;
  }
  TemporaryFolder folder_;
};

TEST_F(QuantizeTest, QuantizeWritesAFolderThatNamesItsScheme) {
  const std::string out = quantized("q4m");
  const auto config = nlohmann::json::parse(read_file(out + "/config.json"));
  EXPECT_EQ(config["quantization_config"],
            (nlohmann::json{{"quant_method", "lockstep"}, {"scheme", "q4m"}, {"version", 1}}));
  for (const char* name : {"tokenizer.json", "tokenizer_config.json", "generation_config.json"}) {
    EXPECT_EQ(read_file(out + "/" + name), read_file(kDemo + "/" + name)) << name;
  }
  // No other file is left.
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator()), 1);
  EXPECT_EQ(weight_bytes({"plan", out, "--workers", "1", "--json"}),
            weight_bytes({"plan", "--workers", "1", "--json", "--quantize", "q4m"}));
}

TEST_F(QuantizeTest, AQuantizedFolderKeepsTemplatesAndInfinityInTheConfig) {
  const std::string model = folder_.path() + "/model";
  fs::copy(LOCKSTEP_SOURCE_DIR "/tests/data/goldens/granite4", model);
  std::string config = read_file(model + "/config.json");
  config.insert(config.find('{') + 1, R"("time_step_limit": [0.0, Infinity], )");
  folder_.write("model/config.json", config);
  fs::create_directory(model + "/additional_chat_templates");
  folder_.write("model/additional_chat_templates/rag.jinja", "{{ messages }}");
  folder_.write("model/additional_chat_templates/notes.txt", "mine");
  const std::string out = folder_.path() + "/out";
  json_of({"quantize", model, out, "--json"});
  EXPECT_EQ(read_file(out + "/additional_chat_templates/rag.jinja"), "{{ messages }}");
  EXPECT_FALSE(fs::exists(out + "/additional_chat_templates/notes.txt"));
  EXPECT_EQ(weight_bytes({"plan", out, "--workers", "1", "--json"}),
            weight_bytes({"plan", model, "--workers", "1", "--json", "--quantize", "q8"}));
}

TEST_F(QuantizeTest, PlanShowsHowMuchSmallerAModelBecomes) {
  const auto bytes = [](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"plan", "--workers", "1", "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return weight_bytes(arguments);
  };
  const int64_t plain = bytes({"--dtype", "float32"});
  EXPECT_LT(bytes({"--quantize", "q8"}), plain * 10 / 32);
  EXPECT_LT(bytes({"--quantize", "q4"}), bytes({"--quantize", "q8"}));
}

TEST_F(QuantizeTest, QuantizeNeverOverwrites) {
  const std::string out = folder_.path() + "/out";
  fs::create_directory(out);
  folder_.write("out/mine", "precious");
  expect_refused({"quantize", kDemo, out}, out + ": must be a new or empty folder");
  expect_refused({"quantize", kDemo, out + "/mine"}, "must be a new or empty folder");
  EXPECT_EQ(read_file(out + "/mine"), "precious");
  fs::remove(out + "/mine");
  EXPECT_EQ(run_lockstep({"quantize", kDemo, out + "/"}).code, 0);  // An empty folder is accepted.
  EXPECT_TRUE(fs::exists(out + "/model.safetensors"));
}

TEST_F(QuantizeTest, AFailedQuantizeLeavesNoFiles) {
  const std::string spoiled = folder_.path() + "/spoiled";
  fs::copy(kDemo, spoiled);
  fs::resize_file(spoiled + "/model.safetensors",
                  fs::file_size(spoiled + "/model.safetensors") - 1);
  expect_refused({"quantize", spoiled, folder_.path() + "/out"}, "cut short");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator()), 1);
}

TEST_F(QuantizeTest, UnsuitableSchemesAreErrorsOfOneLine) {
  const std::string out = quantized("q8");
  expect_refused({"plan", "--quantize", "q5"}, "--quantize q5: must be one of q8, q4, ");
  expect_refused({"quantize", kDemo, folder_.path() + "/x", "--scheme", "int3"},
                 "--scheme int3: must be one of q8, q4, ");
  expect_refused({"plan", out, "--quantize", "q4"}, "is already quantized as q8");
  expect_refused({"quantize", out, folder_.path() + "/x", "--scheme", "q4"},
                 "is already quantized as q8");
  EXPECT_EQ(run_lockstep({"plan", out, "--quantize", "q8"}).code, 0);
  expect_refused({"plan", "--workers", "2", "--strategy", "reduce", "--quantize", "q8c"},
                 "use --strategy gather");
}

TEST_F(QuantizeTest, ARemovedSchemeIsRefusedWithTheNameOfItsReplacement) {
  expect_refused({"plan", "--quantize", "q4g64"},
                 "--quantize q4g64: that scheme was removed: use q4");
  expect_refused({"quantize", kDemo, folder_.path() + "/x", "--scheme", "q4a16"},
                 "--scheme q4a16: that scheme was removed: use q4");
  const std::string out = quantized("q4m");
  std::string config = read_file(out + "/config.json");
  config.replace(config.find("\"q4m\""), 5, "\"q4mg64\"");
  folder_.write("q4m/config.json", config);
  expect_refused({"plan", out},
                 "scheme q4mg64: that scheme was removed: use q4m; quantize the original again");
}

// Compares tokens and logits; EXPECT_EQ would print all of them.
void expect_same(const nlohmann::json& found, const nlohmann::json& wanted,
                 const std::string& scheme) {
  EXPECT_EQ(found["tokens"], wanted["tokens"]) << scheme;
  EXPECT_EQ(wanted["prompt_logits"].size(), 3072u) << scheme;
  EXPECT_TRUE(found == wanted) << scheme << ": other logits";
}

TEST_F(QuantizeTest, AFolderGivesTheSameBitsAsRoundingAtLoad) {
  for (const std::string scheme : {"q8", "q4", "q4m"}) {
    const nlohmann::json wanted =
        json_of(generate(kDemo, 1, {"--threads", "2", "--quantize", scheme}));
    expect_same(json_of(generate(quantized(scheme), 2, {"--threads", "1"})), wanted, scheme);
  }
}

TEST_F(QuantizeTest, StacksOfExpertsGiveTheSameBitsAsRoundingAtLoad) {
  for (const std::string name : {"gemma4_moe", "granite4"}) {
    const std::string model = LOCKSTEP_SOURCE_DIR "/tests/data/goldens/" + name;
    const auto answer = [](const std::string& folder, const std::vector<std::string>& more) {
      std::vector<std::string> arguments = {
          "generate", folder,   "--prompt-ids", "5,9,17", "--temperature",
          "0",        "--json", "--max-tokens", "8",      "--logits",
          "--seed",   "1",      "--workers"};
      arguments.insert(arguments.end(), more.begin(), more.end());
      return json_of(arguments);
    };
    for (const std::string scheme : {"q8", "q4m"}) {
      const std::string out = folder_.path() + "/" + name + scheme;
      json_of({"quantize", model, out, "--scheme", scheme, "--json"});
      EXPECT_TRUE(answer(out, {"3"}) == answer(model, {"1", "--quantize", scheme}))
          << name << " " << scheme;
    }
  }
}

TEST_F(QuantizeTest, AnyNumberOfWorkersThreadsAndChunksGivesTheSameBits) {
  for (const std::string scheme : {"q8", "q4", "q8c", "q4m"}) {
    const nlohmann::json one =
        json_of(generate(kDemo, 1, {"--threads", "2", "--quantize", scheme}));
    expect_same(json_of(generate(kDemo, 3,
                                 {"--threads", "1", "--quantize", scheme, "--prefill-chunk", "5"})),
                one, scheme);
  }
}

TEST_F(QuantizeTest, CompareFindsNoDifferenceBetweenAModelAndItself) {
  const nlohmann::json same =
      json_of({"compare", "--dtype", "float32", "--prompt", kText, "--window", "16", "--json"});
  EXPECT_EQ(same["kl_max"], 0);
  EXPECT_EQ(same["same_top1"], 1);
  EXPECT_EQ(same["perplexity"], same["perplexity_float32"]);
  EXPECT_GT(same["positions"].get<int>(), 16);  // More than one window.
}

TEST_F(QuantizeTest, CompareMeasuresTheErrorOfRounding) {
  const nlohmann::json rounded =
      json_of({"compare", "--dtype", "bfloat16", "--prompt", kText, "--json", "--workers", "2"});
  EXPECT_GT(rounded["kl_mean"].get<double>(), 0);
  EXPECT_LT(rounded["kl_mean"].get<double>(), 1e-2);
  EXPECT_LE(rounded["kl_median"].get<double>(), rounded["kl_p99"].get<double>());
  EXPECT_LE(rounded["kl_p99"].get<double>(), rounded["kl_max"].get<double>());
}

// The test computes the perplexity from the logits that `generate --logits` prints for each prefix
// of the text.
TEST_F(QuantizeTest, ThePerplexityOfCompareIsThatOfTheModelsLogits) {
  const auto ids = json_of({"tokenize", "--add-special", "--text", kText})["ids"];
  double surprise = 0;
  for (size_t i = 1; i < ids.size(); ++i) {
    std::string prompt;
    for (size_t j = 0; j < i; ++j) prompt += (j > 0 ? "," : "") + ids[j].dump();
    const auto logits = json_of({"generate", "--dtype", "float32", "--prompt-ids", prompt,
                                 "--max-tokens", "1", "--json", "--logits"})["prompt_logits"];
    double sum = 0;
    for (const auto& logit : logits) sum += std::exp(logit.get<double>());
    surprise += std::log(sum) - logits[ids[i].get<size_t>()].get<double>();
  }
  const nlohmann::json found =
      json_of({"compare", "--dtype", "float32", "--prompt", kText, "--json"});
  EXPECT_NEAR(found["perplexity"].get<double>(),
              std::exp(surprise / static_cast<double>(ids.size() - 1)), 1e-4);
}

TEST_F(QuantizeTest, CompareOrdersSchemesByTheirBits) {
  const auto divergence = [](const char* scheme) {
    return json_of({"compare", "--quantize", scheme, "--prompt", kText, "--json"})["kl_mean"]
        .get<double>();
  };
  const double q8 = divergence("q8"), q4 = divergence("q4");
  EXPECT_GT(q8, 0);
  EXPECT_LT(q8, q4);
}

TEST_F(QuantizeTest, CompareRefusesAModelWithoutFloat32Weights) {
  const std::string out = quantized("q8");
  expect_refused({"compare", out, "--prompt", "a"}, "name the original model and --quantize q8");
  expect_refused({"compare"}, "must have one of --text FILE and --prompt TEXT, found none");
  expect_refused({"compare", "--text", "/nonexistent"}, "/nonexistent");
  expect_refused({"compare", "--prompt", "a", "--window", "1"}, "--window: must be 2 to");
}

}  // namespace
}  // namespace lockstep::testing
