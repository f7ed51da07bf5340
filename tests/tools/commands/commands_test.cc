// SPDX-License-Identifier: Apache-2.0
// The commands that start no group: tokenize, plan, inspect, doctor, --help; and bench.
#include <iterator>
#include <sstream>
#include <utility>

#include "base/source_dir.h"
#include "tests/tools/commands/json_lines.h"

namespace lockstep::testing {
namespace {

TEST(CommandsTest, TokenizeGivesIdsAndTheirText) {
  const ProcessResult result =
      run_lockstep({"tokenize", "--jsonl"}, {.input = "\"Once upon a time\"\n\"na\\u00efve\"\n"});
  ASSERT_EQ(result.code, 0) << result.err;
  const size_t end = result.out.find('\n');
  const auto first = nlohmann::json::parse(result.out.substr(0, end));
  const auto second = nlohmann::json::parse(result.out.substr(end + 1));
  EXPECT_EQ(first["text"], "Once upon a time");
  EXPECT_EQ(second["text"], "na\u00efve");
  const ProcessResult special =
      run_lockstep({"tokenize", "--add-special", "--text", "Once upon a time"});
  EXPECT_EQ(nlohmann::json::parse(special.out)["ids"].size(), first["ids"].size() + 1);
  EXPECT_EQ(run_lockstep({"tokenize", "--jsonl"}, {.input = "17\n"}).code, 2);
}

TEST(CommandsTest, ATextThatFailsGivesAnErrorOnlyForItsLine) {
  const TemporaryFolder folder;
  folder.write("tokenizer.json",
               R"({"model":{"type":"BPE","vocab":{"a":0,"b":1},"merges":[]},"pre_tokenizer":)"
               R"({"type":"Split","behavior":"Isolated","pattern":{"Regex":"(a*)*\\1$"}}})");
  const ProcessResult result =
      run_lockstep({"tokenize", folder.path(), "--jsonl"},
                   {.input = "\"" + std::string(5000, 'a') + "b\"\n\"ab\"\n"});
  EXPECT_NE(result.code, 0);
  const size_t end = result.out.find('\n');
  const auto failed = nlohmann::json::parse(result.out.substr(0, end));
  EXPECT_NE(failed.value("error", "").find("retry-limit"), std::string::npos) << failed;
  EXPECT_EQ(nlohmann::json::parse(result.out.substr(end + 1))["ids"], nlohmann::json({0, 1}));
}

TEST(CommandsTest, TokenizeKeepsSpecialTokensInTextAndInputOnRequest) {
  const auto line = [](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"tokenize", "--text", "One.<|end|>"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const ProcessResult result = run_lockstep(arguments);
    EXPECT_EQ(result.code, 0) << result.err;
    return nlohmann::json::parse(result.out);
  };
  const auto plain = line({}), kept = line({"--keep-special"}), text = line({"--no-parse-special"});
  EXPECT_EQ(plain["text"], "One.");
  EXPECT_EQ(kept["text"], "One.<|end|>");
  EXPECT_EQ(kept["ids"], plain["ids"]);
  EXPECT_EQ(text["text"], "One.<|end|>");
  EXPECT_GT(text["ids"].size(), plain["ids"].size());
}

TEST(CommandsTest, PlanCoversEveryColumnOnce) {
  const ProcessResult result = run_lockstep({"plan", "--workers", "4", "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  const auto plan = nlohmann::json::parse(result.out);
  ASSERT_EQ(plan["ranks"].size(), 4u);
  for (const char* axis : {"heads", "ffn", "vocab", "hidden"}) {
    int64_t at = 0;
    for (const auto& rank : plan["ranks"]) {
      EXPECT_EQ(rank[axis][0], at) << axis;
      at = rank[axis][1];
    }
    EXPECT_GT(at, 0) << axis;
  }
  EXPECT_EQ(run_lockstep({"plan"}).code, 0);
}

TEST(CommandsTest, PlanFirstShowsHowTheConfigWasRead) {
  const ProcessResult text = run_lockstep({"plan"});
  EXPECT_EQ(
      text.out.substr(0, text.out.find(" million parameters\n")),
      "LlamaForCausalLM: 6 layers of 192 columns, 6 heads of 32 (2 of keys and values), MLP of "
      "560, 3072 tokens, context of 1024, 3.118");
  const auto plan = nlohmann::json::parse(run_lockstep({"plan", "--json"}).out);
  EXPECT_EQ(plan["architecture"], "LlamaForCausalLM");
  EXPECT_EQ(plan["layers"], 6);
  EXPECT_EQ(plan["hidden_size"], 192);
  EXPECT_EQ(plan["context"], 1024);
  EXPECT_EQ(plan["parameters"], 3'117'504);
}

TEST(CommandsTest, PlanShowsTheBytesBetweenHosts) {
  const ProcessResult result = run_lockstep({"plan", "--workers", "5", "--hosts", "3", "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  const auto plan = nlohmann::json::parse(result.out);
  ASSERT_EQ(plan["hosts"].size(), 3u);
  int64_t all = 0, next = 0;
  for (const auto& rank : plan["ranks"]) all += rank["collective_bytes_per_token"].get<int64_t>();
  for (const auto& host : plan["hosts"]) {
    EXPECT_EQ(host["ranks"][0], next);
    next = host["ranks"][1];
    int64_t own = 0;
    for (int64_t rank = host["ranks"][0]; rank < next; ++rank) {
      own += plan["ranks"][rank]["collective_bytes_per_token"].get<int64_t>();
    }
    EXPECT_GT(own, 0);
    EXPECT_EQ(host["sent_bytes_per_token"], 2 * own);
    EXPECT_EQ(host["received_bytes_per_token"], all - own);
  }
  EXPECT_EQ(next, 5);
}

TEST(CommandsTest, PlanCountsTheCodesSentBetweenHosts) {
  const auto received = [](const char* scheme) {
    const ProcessResult result =
        run_lockstep({"plan", "--workers", "2", "--hosts", "2", "--quantize", scheme, "--json"});
    EXPECT_EQ(result.code, 0) << result.err;
    int64_t bytes = 0;
    const auto plan = nlohmann::json::parse(result.out);
    for (const auto& host : plan["hosts"]) bytes += host["received_bytes_per_token"].get<int64_t>();
    return bytes;
  };
  // The demo: 6 layers, 192 columns, 560 of ffn. Each host receives a whole row to sum embeddings.
  const int64_t embedding = 2 * 192 * 4;
  EXPECT_EQ(received("q8c"), embedding + 6 * (3 * 192 + 560) * 4);
  EXPECT_EQ(received("q8"), embedding + 6 * (2 * 192 * 4 + (6 + 18) * 36));
}

TEST(CommandsTest, PlanSizesShardsBySpeeds) {
  const ProcessResult result =
      run_lockstep({"plan", "--workers", "3", "--speeds", "8,4,4", "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  const auto ranks = nlohmann::json::parse(result.out)["ranks"];
  const auto columns = [&](int rank) {
    return ranks[rank]["ffn"][1].get<int64_t>() - ranks[rank]["ffn"][0].get<int64_t>();
  };
  EXPECT_EQ(columns(1), columns(2));
  EXPECT_NEAR(static_cast<double>(columns(0)) / static_cast<double>(columns(1)), 2, 0.1);
}

TEST(CommandsTest, PlanShowsTheCostOfTheTypeOfKeysAndValues) {
  const auto plan = [](const char* dtype) {
    const ProcessResult result = run_lockstep({"plan", "--json", "--kv-dtype", dtype});
    EXPECT_EQ(result.code, 0) << result.err;
    return nlohmann::json::parse(result.out);
  };
  const auto wide = plan("float32"), narrow = plan("int8");
  EXPECT_EQ(wide["kv_dtype"], "float32");
  EXPECT_EQ(narrow["kv_dtype"], "int8");
  const int64_t bytes = wide["ranks"][0]["kv_bytes_per_token"];
  EXPECT_LT(narrow["ranks"][0]["kv_bytes_per_token"], bytes / 2);
  EXPECT_GT(narrow["ranks"][0]["kv_bytes_per_token"], bytes / 4);
}

TEST(CommandsTest, InspectShowsEveryStage) {
  const ProcessResult result = run_lockstep({"inspect", "--workers", "2"});
  ASSERT_EQ(result.code, 0) << result.err;
  for (const char* word : {"=== model", "fuse_linears", "all_gather", "top_candidates"}) {
    EXPECT_NE(result.out.find(word), std::string::npos) << word;
  }
  const ProcessResult picture = run_lockstep({"inspect", "--dot"});
  EXPECT_EQ(picture.out.substr(0, 7), "digraph");
}

TEST(CommandsTest, InspectCountsTheModelInJson) {
  const ProcessResult result = run_lockstep({"inspect", "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  const auto found = nlohmann::json::parse(result.out);
  const auto config = nlohmann::json::parse(read_file(LOCKSTEP_SOURCE_DIR "/demo/config.json"));
  EXPECT_EQ(found["architecture"], config["architectures"][0]);
  EXPECT_EQ(found["layers"], config["num_hidden_layers"]);
  EXPECT_EQ(found["windows"].size(), config["num_hidden_layers"]);
  EXPECT_EQ(found["rotary"].size(), 1u);
  int64_t elements = 0;
  for (const auto& [name, shape] : found["tensors"].items()) {
    int64_t count = 1;
    for (const int64_t size : shape) count *= size;
    elements += count;
  }
  EXPECT_EQ(found["parameters"], elements);
}

TEST(CommandsTest, AConfigAloneIsEnoughForPlanAndInspect) {
  TemporaryFolder folder;
  const std::string file =
      folder.write("config.json", read_file(LOCKSTEP_SOURCE_DIR "/demo/config.json"));
  const ProcessResult whole = run_lockstep({"plan", "--json"});
  for (const std::string& path : {folder.path(), file}) {
    const ProcessResult plan = run_lockstep({"plan", path, "--json"});
    ASSERT_EQ(plan.code, 0) << plan.err;
    EXPECT_EQ(nlohmann::json::parse(plan.out)["ranks"], nlohmann::json::parse(whole.out)["ranks"]);
    const ProcessResult inspect = run_lockstep({"inspect", path, "--stage", "program"});
    EXPECT_EQ(inspect.code, 0) << inspect.err;
    EXPECT_NE(inspect.out.find("top_candidates"), std::string::npos);
  }
  // Commands that run the model need its weights.
  const ProcessResult run = run_lockstep({"generate", folder.path(), "--prompt-ids", "1"});
  EXPECT_EQ(run.code, 2);
  EXPECT_NE(run.err.find("safetensors"), std::string::npos) << run.err;
}

// The number of lines that contain the word.
int64_t lines_with(const std::string& text, const std::string& word) {
  std::istringstream lines(text);
  int64_t count = 0;
  for (std::string line; std::getline(lines, line);) {
    count += line.find(word) != std::string::npos;
  }
  return count;
}

TEST(CommandsTest, InspectShowsEqualLayersOnce) {
  const int64_t layers = nlohmann::json::parse(
      read_file(LOCKSTEP_SOURCE_DIR "/demo/config.json"))["num_hidden_layers"];
  for (const char* stage : {"model", "fuse_add_norm", "program"}) {
    const ProcessResult folded = run_lockstep({"inspect", "--stage", stage});
    const ProcessResult all = run_lockstep({"inspect", "--stage", stage, "--all"});
    EXPECT_NE(folded.out.find(": as layer "), std::string::npos) << folded.out;
    EXPECT_EQ(all.out.find(": as layer "), std::string::npos);
    EXPECT_EQ(lines_with(all.out, " = attention("), layers) << stage;
    EXPECT_LT(lines_with(folded.out, " = attention("), layers) << stage;
    // The text after the layers is complete.
    EXPECT_EQ(lines_with(folded.out, "top_candidates("), 1) << stage;
  }
  const ProcessResult model = run_lockstep({"inspect", "--stage", "model"});
  EXPECT_NE(model.out.find("layers 2-" + std::to_string(layers - 1) + ": as layer 1"),
            std::string::npos)
      << model.out;
}

TEST(CommandsTest, InspectShowsALayerThatDiffersFromTheOneBefore) {
  TemporaryFolder folder;
  auto config = nlohmann::json::parse(read_file(LOCKSTEP_SOURCE_DIR "/demo/config.json"));
  config["architectures"] = {"Qwen2ForCausalLM"};
  config["num_hidden_layers"] = 7;
  config["use_sliding_window"] = true;
  config["sliding_window"] = 64;
  config["max_window_layers"] = 3;
  const ProcessResult result =
      run_lockstep({"inspect", folder.write("config.json", config.dump()), "--stage", "model"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_NE(result.out.find("layer 2: as layer 1"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("layers 4-6: as layer 3"), std::string::npos) << result.out;
  EXPECT_EQ(lines_with(result.out, " = attention("), 3) << result.out;
}

TEST(CommandsTest, DoctorVersionAndHelpWork) {
  const auto facts = nlohmann::json::parse(run_lockstep({"doctor", "--json"}).out);
  EXPECT_GE(facts["usable_cores"].get<int>(), 1);
  EXPECT_GT(facts["memory_free_bytes"].get<int64_t>(), 0);
  EXPECT_GE(facts["memory_nodes"].size(), 1u);
  EXPECT_TRUE(facts["l2_bytes"].is_number_integer() && facts["l3_bytes"].is_number_integer());
  EXPECT_LE(facts["huge_pages_share"].get<double>(), 1.1);
  if (facts["huge_pages"] == "never") {
    EXPECT_EQ(facts["huge_pages_share"].get<double>(), 0);
  }
  EXPECT_EQ(run_lockstep({"doctor"}).code, 0);
  EXPECT_EQ(run_lockstep({"doctor", "--gpu", "--weight-cache", "/nowhere"}).out.substr(0, 26),
            "no kernels were proven yet");
  EXPECT_EQ(run_lockstep({"doctor", "--gpu", "--json", "--weight-cache", "off"}).out,
            "{\"proofs\":[]}\n");
  EXPECT_EQ(run_lockstep({"--version"}).out.substr(0, 9), "lockstep ");
  for (const char* command : {"serve", "worker", "generate", "tokenize", "bench", "plan", "inspect",
                              "quantize", "compare", "doctor"}) {
    const ProcessResult help = run_lockstep({command, "--help"});
    EXPECT_EQ(help.code, 0) << command;
    EXPECT_GT(help.out.size(), 100u) << command;
  }
}

TEST(CommandsTest, BenchMeasuresRandomWeightsFromAConfigAlone) {
  TemporaryFolder folder;
  folder.write("config.json", read_file(LOCKSTEP_SOURCE_DIR "/demo/config.json"));
  const ProcessResult result = run_lockstep(
      {"bench", folder.path(), "--random-weights", "1", "--workers", "2", "--prompt-tokens", "64",
       "--output-tokens", "8", "--batch", "2", "--repeat", "1", "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  const auto figures = nlohmann::json::parse(result.out);
  EXPECT_GT(figures["prefill_tokens_per_s"].get<double>(), 0);
  EXPECT_GT(figures["decode_tokens_per_s"].get<double>(), 0);
  EXPECT_GT(figures["weight_bytes"].get<int64_t>(), 0);
  ASSERT_EQ(figures["worker_resident_bytes"].size(), 2u);
  for (const auto& bytes : figures["worker_resident_bytes"]) EXPECT_GT(bytes.get<int64_t>(), 0);
}

TEST(CommandsTest, BenchReadsCasesAsTheyArrive) {
  const ProcessResult result =
      run_lockstep({"bench", "--cases", "-", "--repeat", "2", "--json"},
                   {.input = "prefill:64\ndecode:8@16x3,decode:4\nprefill:32x2\n"});
  ASSERT_EQ(result.code, 0) << result.err;
  const std::vector<nlohmann::json> lines = json_lines(result.out);
  ASSERT_EQ(lines.size(), 5u) << result.out;
  EXPECT_GT(lines[0]["weight_bytes"].get<int64_t>(), 0);
  const std::pair<const char*, int64_t> wanted[] = {
      {"prefill:64", 64}, {"decode:8@16x3", 24}, {"decode:4", 4}, {"prefill:32x2", 64}};
  for (size_t i = 0; i < std::size(wanted); ++i) {
    const nlohmann::json& line = lines[i + 1];
    EXPECT_EQ(line["case"], wanted[i].first);
    EXPECT_EQ(line["tokens"], wanted[i].second);
    ASSERT_EQ(line["seconds"].size(), 2u);
    for (const nlohmann::json& seconds : line["seconds"]) EXPECT_GT(seconds.get<double>(), 0);
  }
}

TEST(CommandsTest, EveryWorkerReportsItsTimeByKernelAtTheEnd) {
  const ProcessResult result = run_lockstep({"bench", "--cases", "prefill:32", "--repeat", "1",
                                             "--workers", "2", "--log-level", "debug"});
  ASSERT_EQ(result.code, 0) << result.err;
  size_t profiles = 0;
  for (size_t at = 0; (at = result.err.find("time by kernel", at)) != std::string::npos; ++at) {
    ++profiles;
  }
  EXPECT_EQ(profiles, 2u) << result.err;
  EXPECT_NE(result.err.find("attention_"), std::string::npos) << result.err;
}

TEST(CommandsTest, BenchRefusesACaseThatItCannotRun) {
  const std::pair<const char*, const char*> bad[] = {
      {"decode:0", "\"decode:0\""},
      {"prefill:8@4", "prefill:8@4"},
      {"prefill:8,", "\"\""},
      {"decode:1@1024", "1024 positions"},
      {"decode:4x65", "at most 64 sequences at once, found 65"},
  };
  for (const auto& [list, word] : bad) {
    const ProcessResult result = run_lockstep({"bench", "--cases", list, "--json"});
    EXPECT_EQ(result.code, 2) << list;
    EXPECT_NE(result.err.find(word), std::string::npos) << result.err;
    EXPECT_EQ(lines_said(result.err), 1) << result.err;
  }
}

TEST(CommandsTest, AnIsaThatThisMachineLacksIsAnError) {
  const ProcessResult result =
      run_lockstep({"doctor"}, {.input = "", .environment = {{"LOCKSTEP_ISA", "mmx"}}});
  EXPECT_EQ(result.code, 2);
  EXPECT_NE(result.err.find("mmx"), std::string::npos) << result.err;
}

}  // namespace
}  // namespace lockstep::testing
