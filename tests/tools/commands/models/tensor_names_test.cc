// SPDX-License-Identifier: Apache-2.0
// Folders whose tensors have other names than in the model's family, or are incomplete, as a user
// sees them.
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <functional>

#include "base/source_dir.h"
#include "tests/tools/commands/json_lines.h"

namespace lockstep::testing {
namespace {

class TensorNamesTest : public ::testing::Test {
 protected:
  // Returns the folder of a copy of the golden in which `name` changes each tensor's name, with
  // additional keys in its config.
  std::string spelled(const std::string& golden,
                      const std::function<std::string(const std::string&)>& name,
                      const nlohmann::json& config_keys = nlohmann::json::object()) {
    golden_ = LOCKSTEP_SOURCE_DIR "/tests/data/goldens/" + golden;
    const std::string file = read_file(golden_ + "/model.safetensors");
    uint64_t size = 0;
    std::memcpy(&size, file.data(), sizeof(size));
    const auto published = nlohmann::json::parse(file.substr(8, size));
    nlohmann::json header;
    for (const auto& [own, tensor] : published.items()) header[name(own)] = tensor;
    const std::string text = header.dump();
    const uint64_t length = text.size();
    folder_.write("model.safetensors",
                  std::string(reinterpret_cast<const char*>(&length), sizeof(length)) + text +
                      file.substr(8 + size));
    auto config = nlohmann::json::parse(read_file(golden_ + "/config.json"));
    config.update(config_keys);
    folder_.write("config.json", config.dump());
    return folder_.path();
  }

  // Runs a prompt of the golden and expects its answer, and `said` as the message.
  void expect_golden_tokens(const std::string& folder, const std::string& said) {
    const auto golden = nlohmann::json::parse(read_file(golden_ + "/golden.json"))["prompts"][1];
    std::string ids;
    for (const auto& id : golden["ids"]) ids += (ids.empty() ? "" : ",") + id.dump();
    const ProcessResult result =
        run_lockstep({"generate", folder, "--dtype", "float32", "--workers", "2", "--prompt-ids",
                      ids, "--temperature", "0", "--ignore-eos", "--max-tokens",
                      std::to_string(golden["greedy"].size()), "--json"});
    ASSERT_EQ(result.code, 0) << result.err;
    EXPECT_EQ(json_lines(result.out)[0]["tokens"], golden["greedy"]);
    EXPECT_NE(result.err.find(said), std::string::npos) << result.err;
    EXPECT_EQ(result.err.empty(), said.empty()) << result.err;
  }

  TemporaryFolder folder_;
  std::string golden_;
};

std::string as_it_is(const std::string& name) { return name; }

// GPT-2, BLOOM and OPT were published like this: "h.0" for "transformer.h.0".
TEST_F(TensorNamesTest, ACheckpointMayOmitTheCommonPrefix) {
  const std::string outer = "transformer.";
  expect_golden_tokens(spelled("bloom",
                               [&](const std::string& name) {
                                 return name.starts_with(outer) ? name.substr(outer.size()) : name;
                               }),
                       "");
}

TEST_F(TensorNamesTest, ATiedModelWithItsOwnHeadUsesItAndSaysSo) {
  expect_golden_tokens(spelled("bloom", as_it_is, {{"tie_word_embeddings", true}}),
                       "has a head, lm_head.weight: using it");
}

TEST_F(TensorNamesTest, MissingTensorsAreFoundBeforeAnythingStarts) {
  const std::string folder = spelled("seed_oss", [](const std::string& name) {
    return name.ends_with("up_proj.weight") ? name + "_v2" : name;
  });
  for (const std::vector<std::string>& command :
       std::vector<std::vector<std::string>>{{"plan", folder},
                                             {"inspect", folder},
                                             {"quantize", folder, folder + "/out"},
                                             {"generate", folder, "--prompt-ids", "5"}}) {
    const ProcessResult result = run_lockstep(command);
    EXPECT_EQ(result.code, 2) << command[0];
    EXPECT_NE(result.err.find("2 of 27 tensors are missing from the checkpoint " + folder +
                              ": model.layers.0.mlp.up_proj.weight, "
                              "model.layers.1.mlp.up_proj.weight; nearest to the first is "
                              "model.layers.0.mlp.up_proj.weight_v2 [52, 35]; "),
              std::string::npos)
        << result.err;
  }
}

TEST_F(TensorNamesTest, UnreadTensorsAreOneWarning) {
  const std::string folder = spelled("seed_oss", as_it_is, {{"attention_bias", false}});
  for (const std::string command : {"plan", "inspect"}) {
    const ProcessResult result = run_lockstep({command, folder});
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_NE(result.err.find("6 tensors are not read: model.layers.0.self_attn.k_proj.bias, "),
              std::string::npos)
        << result.err;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  }
}

}  // namespace
}  // namespace lockstep::testing
