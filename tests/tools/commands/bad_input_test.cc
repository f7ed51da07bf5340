// SPDX-License-Identifier: Apache-2.0
// Bad input gives one line on stderr that names what is wrong, and exit code 2, never an abort.
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <functional>
#include <random>

#include "base/source_dir.h"
#include "tests/tools/commands/json_lines.h"

namespace lockstep::testing {
namespace {

namespace fs = std::filesystem;

const std::string kDemo = LOCKSTEP_SOURCE_DIR "/demo";

void expect_one_line(const std::vector<std::string>& arguments, const std::string& named,
                     const ProcessOptions& options = {}) {
  std::string shown;
  for (const std::string& argument : arguments) shown += " " + argument;
  const ProcessResult result = run_lockstep(arguments, options);
  EXPECT_EQ(result.code, 2) << shown << "\n" << result.err;
  EXPECT_EQ(lines_said(result.err), 1) << shown << "\n" << result.err;
  EXPECT_NE(result.err.find(named), std::string::npos) << shown << "\n" << result.err;
  EXPECT_EQ(result.out, "") << shown;
}

// A copy of the demo model that a test may modify.
class SpoiledModel {
 public:
  SpoiledModel() { fs::copy(kDemo, folder_.path(), fs::copy_options::recursive); }
  const std::string& path() const { return folder_.path(); }
  std::string read(const std::string& name) const { return read_file(path() + "/" + name); }
  void write(const std::string& name, const std::string& content) const {
    folder_.write(name, content);
  }
  void set_config(const std::string& key, const nlohmann::json& value) const {
    auto config = nlohmann::json::parse(read("config.json"));
    config[key] = value;
    write("config.json", config.dump());
  }
  // Changes the JSON header and updates its length field.
  void edit_header(const std::function<void(nlohmann::ordered_json&)>& edit) const {
    const std::string file = read("model.safetensors");
    uint64_t length = 0;
    std::memcpy(&length, file.data(), 8);
    auto header = nlohmann::ordered_json::parse(file.substr(8, length));
    edit(header);
    std::string text = header.dump();
    const uint64_t changed = text.size();
    write("model.safetensors",
          std::string(reinterpret_cast<const char*>(&changed), 8) + text + file.substr(8 + length));
  }
  void expect_refused(const std::string& named) const {
    expect_one_line({"generate", path(), "--prompt", "The"}, named);
  }

 private:
  TemporaryFolder folder_;
};

TEST(BadInputTest, NonFiniteWeightsAreBadInput) {
  const SpoiledModel model;
  std::string file = model.read("model.safetensors");
  uint64_t length = 0;
  std::memcpy(&length, file.data(), 8);
  std::fill(file.begin() + 8 + static_cast<int64_t>(length), file.end(), '\xff');
  model.write("model.safetensors", file);
  model.expect_refused("do the weights have NaN or inf? fetch the checkpoint again");
}

TEST(BadInputTest, AnErrorNamesTheFlag) {
  expect_one_line({"generate", "--prompt", "a", "--workers", "0"},
                  "--workers: must be a whole number of 1 or more, found 0");
  expect_one_line({"generate", "--prompt", "a", "--workers", "7"}, "6 heads");
  expect_one_line({"generate", "--prompt", "a", "--workers", "two"}, "two");
  expect_one_line({"generate", "--prompt", "a", "--dtype", "float17"}, "float17");
  expect_one_line({"generate", "--prompt", "a", "--strategy", "scatter"}, "scatter");
  expect_one_line({"generate", "--prompt", "a", "--fast", "--device", "cpu"},
                  "--fast: devices must be GPUs");
  expect_one_line({"generate", "--prompt", "a", "--max-tokens", "-1"}, "max_tokens");
  expect_one_line({"generate", "--prompt", "a", "--temperature", "-0.5"}, "temperature");
  expect_one_line({"generate", "--prompt", "a", "--temperature", "nan"}, "temperature");
  expect_one_line({"generate", "--prompt", "a", "--top-p", "1.5"}, "top_p");
  expect_one_line({"generate", "--prompt", "a", "--no-such-flag"}, "--no-such-flag");
  expect_one_line({"generate", "--prompt-ids", "1,x"}, "--prompt-ids");
  expect_one_line({"generate", "--prompt-ids", "1,99999"}, "99999");
  expect_one_line({"generate", "--prompt-ids", "-3"}, "-3");
  expect_one_line({"generate"}, "--prompt");
  expect_one_line({"generate", "--prompt", "a", "--prompt-ids", "1"}, "several");
  expect_one_line({"no-such-command"}, "no-such-command");
  expect_one_line({"plan", "--workers", "9"}, "6 heads");
  expect_one_line({"plan", "--workers", "3", "--speeds", "8,4"}, "one for each of the 3 workers");
  expect_one_line({"plan", "--speeds", "8,0"}, "--speeds");
  expect_one_line({"plan", "--workers", "2", "--hosts", "3"}, "--hosts: must be 1 to 2");
  expect_one_line({"plan", "--hosts", "0"}, "--hosts: must be 1 to 2");
  expect_one_line({"worker", "--coordinator", "127.0.0.1:1", "--speed", "nan"}, "--speed");
  expect_one_line({"plan", "--kv-dtype", "q8"}, "--kv-dtype: must be auto, float32");
  expect_one_line({"inspect", "--stage", "nowhere"}, "nowhere");
  expect_one_line({"bench", "--prompt-tokens", "5000"}, "context");
  expect_one_line({"serve", "--grpc", "nonsense"}, "--grpc");
  expect_one_line({"serve", "--http", "8000"}, "--http 8000: must be HOST:PORT");
  expect_one_line({"serve", "--grpc", "0.0.0.0:0"}, "--insecure grpc");
  expect_one_line({"serve", "--http", "[::]:0", "--insecure", "grpc,cluster"}, "--insecure http");
  expect_one_line({"serve", "--cluster", "0.0.0.0:0"}, "--insecure cluster");
  expect_one_line({"serve", "--insecure", "web"},
                  "--insecure: must be http or grpc or cluster or admin, found web");
  expect_one_line({"serve", "--insecure", "grpc,http", "/none"}, "no folder /none");
  expect_one_line({"serve", "--tls-cert", "a.pem"}, "or neither, found only --tls-cert");
  expect_one_line({"workers", "--key", "a.key"}, "or neither, found only --key");
  expect_one_line({"serve", "--tls-ca", "a.pem"}, "--tls-ca a.pem");
  expect_one_line({"serve", "--grpc", "0.0.0.0:0", "--http", "off", "--tls-cert", "/none.pem",
                   "--tls-key", "/none.key"},
                  "/none.pem");
  expect_one_line({"inspect", "--dot", "--stage", "model"}, "--stage model");
  expect_one_line({"inspect", "--html", "a.html", "--dot"}, "cannot be combined with --dot");
  expect_one_line({"inspect", "--json", "--dot"}, "cannot be combined with --dot");
  expect_one_line({"inspect", "--json", "--stage", "model"}, "cannot be combined with --stage");
  expect_one_line({"inspect", "--html", "/none/a.html"}, "--html /none/a.html: it cannot be");
}

TEST(BadInputTest, NumbersOfFlagsAreChecked) {
  expect_one_line({"generate", "--prompt", "a", "--kv-memory=-5"},
                  "--kv-memory: must be a size such as 512MiB or 2GiB, found -5");
  expect_one_line({"generate", "--prompt", "a", "--kv-memory", "2XB"}, "found 2XB");
  expect_one_line({"generate", "--prompt", "a", "--seed", "-1"}, "--seed");
  expect_one_line({"generate", "--prompt", "a", "--prefill-chunk", "many"},
                  "--prefill-chunk: must be auto or a whole number from 1 to 65536, found many");
  expect_one_line({"generate", "--prompt", "a", "--prefill-chunk", "0"},
                  "--prefill-chunk: must be auto or a whole number from 1 to 65536, found 0");
  expect_one_line({"quantize", kDemo, "/proc/x"}, "/proc/x");
  expect_one_line({"generate", "--prompt", "a", "--seed", "99999999999999999999"},
                  "--seed: must be a whole number from 0 to 18446744073709551615");
  expect_one_line(
      {"generate", "--prompt", "a", "--max-tokens", "99999999999"},
      "--max-tokens: must be a whole number from -2147483648 to 2147483647, found 99999999999");
  expect_one_line({"generate", "--prompt", "a", "--workers", "x"},
                  "--workers: must be a whole number of 1 or more, found x");
  expect_one_line({"generate", "--prompt", "a", "--logprobs", "2"},
                  "--logprobs: must be used with --json");
  expect_one_line({"generate", "--prompt", "a", "--memory-fraction", "0"}, "--memory-fraction");
  expect_one_line({"generate", "--prompt", "a", "--log-level", "off"}, "--log-level: must be");
  expect_one_line({"serve", "a", "b"}, "did not expect b");
  expect_one_line({"worker", "--coordinator", "localhost:1", "--log-level", "loud"}, "loud");
  expect_one_line({"worker", "--coordinator", "localhost"},
                  "--coordinator localhost: must be HOST");
  expect_one_line({"worker", "--coordinator", "a:1", "--rank", "-1"}, "--rank");
  expect_one_line({"worker", "--coordinator", "localhost:1"}, "LOCKSTEP_JOIN_TOKEN: must be set");
}

TEST(BadInputTest, AnUnknownFlagNamesTheNearestOne) {
  expect_one_line({"serve", "--wrkers", "2"},
                  "there is no flag --wrkers; did you mean --workers? (see lockstep serve --help)");
  expect_one_line({"generate", "--temp", "0"},
                  "there is no flag --temp; did you mean --temperature? (see lockstep generate");
  expect_one_line({"serve", "--host", "::"},
                  "there is no flag --host; here it is --http HOST:PORT (see lockstep serve");
  expect_one_line({"serve", "--model", "a"}, "--model; here it is the argument MODEL (see");
  expect_one_line({"serve", "--tensor-parallel-size", "2"}, "here it is --workers N (see");
  expect_one_line({"serve", "--tool-call-parser", "hermes"}, "here it is --tool-parser NAME (see");
  expect_one_line({"generate", "--max-model-len=8"}, "--max-model-len; here it is --max-context N");
  expect_one_line({"serve", "-ngl", "99"}, "-ngl; here it is --device cuda (see");
  expect_one_line({"generate", "-c", "8"}, "-c; here it is --max-context N (see");
  expect_one_line({"generate", "--host", "a"}, "there is no flag --host (see");
  expect_one_line({"generate", "--wait", "a"}, "there is no flag --wait (see");
}

TEST(BadInputTest, AShortJoinTokenIsNamed) {
  const ProcessOptions guessed = {.environment = {{"LOCKSTEP_JOIN_TOKEN", "try"}}};
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"worker", "--coordinator", "localhost:1"},
        {"serve", "--wait-workers", "1"}}) {
    const ProcessResult result = run_lockstep(arguments, guessed);
    EXPECT_EQ(result.code, 2);
    EXPECT_NE(result.err.find("must have at least 16 characters, found 3"), std::string::npos);
  }
}

TEST(BadInputTest, OutputThatCannotBeWrittenIsAnErrorAndNoAbort) {
  for (const std::string command :
       {"tokenize --text a >/dev/full", "plan >/dev/full", "generate --json --prompt a >/dev/full",
        "inspect --stage program --all >/dev/full", "tokenize --text a >&-"}) {
    const std::string line = lockstep_binary() + " " + command;
    Process shell({"/bin/sh", "-c", line});
    EXPECT_EQ(shell.wait(), 1) << command << shell.err();
    EXPECT_NE(shell.err().find("standard output: cannot be written: "), std::string::npos)
        << command << shell.err();
  }
}

TEST(BadInputTest, PromptsAreChecked) {
  expect_one_line({"generate", "--prompt", "caf\xe9 "}, "UTF-8");
  std::string ids = "1";
  for (int i = 0; i < 1100; ++i) ids += ",2";
  expect_one_line({"generate", "--prompt-ids", ids}, "context");
}

TEST(BadInputTest, ABadLineOfInputIsNamedAndTheOthersAreAnswered) {
  TemporaryFolder folder;
  const std::string good = "{\"prompt\": \"a\", \"max_tokens\": 2, \"ignore_eos\": true}\n";
  const std::pair<const char*, const char*> bad[] = {
      {"{\"prompt\": ", "JSON"},
      {"[1, 2]", "object"},
      {R"({"prompt": "a", "max_token": 3})", "max_token"},
      {R"({"prompt": "a", "max_tokens": -3})", "max_tokens"},
      {R"({"prompt_ids": [1, 2.5]})", "2.5"}};
  std::string all = good;
  for (const auto& [line, named] : bad) all += std::string(line) + "\n" + good;
  const std::string path = folder.write("requests.jsonl", all);
  const ProcessResult result = run_lockstep({"generate", "--json", "--input", path});
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(lines_said(result.err), 1) << result.err;
  EXPECT_NE(result.err.find("5 lines got an error, the first is " + path + " line 2: "),
            std::string::npos)
      << result.err;
  const std::vector<nlohmann::json> answers = json_lines(result.out);
  ASSERT_EQ(answers.size(), 11u);
  for (size_t i = 0; i < 11; ++i) {
    if (i % 2 == 0) {
      EXPECT_EQ(answers[i].at("tokens").size(), 2u) << answers[i];
      continue;
    }
    const std::string error = answers[i].at("error");
    EXPECT_TRUE(error.starts_with(path + " line " + std::to_string(i + 1) + ": ")) << error;
    EXPECT_NE(error.find(bad[i / 2].second), std::string::npos) << error;
  }
  expect_one_line({"generate", "--input", folder.path() + "/missing"}, "missing");
}

TEST(BadInputTest, NoWorkerStartsIfEveryLineIsBad) {
  const ProcessResult result =
      run_lockstep({"generate", "--input", "-", "--log-level", "debug"}, {.input = "\n{}\n"});
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(json_lines(result.out).size(), 1u);
  EXPECT_NE(result.err.find("standard input line 2: "), std::string::npos) << result.err;
  EXPECT_EQ(result.err.find("worker"), std::string::npos) << result.err;
}

TEST(BadInputTest, ABadLineOfTextDoesNotAffectOthers) {
  const ProcessResult result =
      run_lockstep({"tokenize", "--jsonl"}, {.input = "\"a\"\n17\n\"\nnull\n\"b\"\n"});
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(lines_said(result.err), 1) << result.err;
  const std::vector<nlohmann::json> lines = json_lines(result.out);
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_EQ(lines[0].at("text"), "a");
  EXPECT_EQ(lines[1].at("error"), "standard input line 2: must be a JSON string, found number");
  EXPECT_NE(lines[2].at("error").get<std::string>().find("JSON"), std::string::npos) << lines[2];
  EXPECT_EQ(lines[4].at("text"), "b");
}

TEST(BadInputTest, ModelFoldersAreChecked) {
  expect_one_line({"generate", "/no/such/folder", "--prompt", "a"}, "/no/such/folder");
  expect_one_line({"generate", "some-org/some-model", "--prompt", "a"}, "Hugging Face");
  TemporaryFolder empty;
  expect_one_line({"generate", empty.path(), "--prompt", "a"}, "config.json");
  const std::string file = empty.write("model.gguf", "GGUF");
  expect_one_line({"generate", file, "--prompt", "a"}, "model.gguf: GGUF");
  expect_one_line({"serve", empty.path()}, "holds model.gguf: GGUF");
  empty.write("config.json", R"({"model_type": "llama"})");
  expect_one_line({"serve", empty.path()}, "holds model.gguf: GGUF");
}

TEST(BadInputTest, TokenizeNeedsATokenizerButNoConfig) {
  TemporaryFolder empty;
  expect_one_line({"tokenize", empty.path(), "--text", "a"}, "has no tokenizer.json");
  const std::string file = empty.write("notes.txt", "");
  expect_one_line({"tokenize", file, "--text", "a"}, "name the folder that holds tokenizer.json");
  expect_one_line({"tokenize", "/no/such/folder", "--text", "a"}, "no folder /no/such/folder");
  empty.write("tokenizer.model", "");
  expect_one_line({"tokenize", empty.path(), "--text", "a"}, "tokenizer.model is not read");
}

TEST(BadInputTest, ConfigsAreChecked) {
  SpoiledModel model;
  const std::string config = model.read("config.json");
  model.write("config.json", "{");
  model.expect_refused("config.json");
  model.write("config.json", config);
  model.set_config("architectures", {"NoSuchForCausalLM"});
  model.expect_refused("NoSuchForCausalLM");
  model.write("config.json", config);
  model.set_config("hidden_act", "unheard_of");
  model.expect_refused("hidden_act");
  model.write("config.json", config);
  model.set_config("changes_the_maths", 3);
  model.expect_refused("changes_the_maths");
  model.write("config.json", config);
  model.set_config("rope_scaling", {{"rope_type", "spiral"}, {"factor", 2.0}});
  model.expect_refused("spiral");
  model.write("config.json", config);
  model.set_config("hidden_size", -192);
  model.expect_refused("hidden_size");
  std::string nan = config;
  const size_t eps = nan.find("\"rms_norm_eps\":");
  ASSERT_NE(eps, std::string::npos);
  nan.replace(eps, nan.find_first_of(",}", eps) - eps, "\"rms_norm_eps\": NaN");
  model.write("config.json", nan);
  model.expect_refused("config.json");
}

TEST(BadInputTest, CheckpointsAreChecked) {
  SpoiledModel model;
  const std::string weights = model.read("model.safetensors");
  fs::remove(model.path() + "/model.safetensors");
  model.expect_refused("safetensors");
  model.write("model.safetensors", weights.substr(0, weights.size() / 2));
  model.expect_refused("model.safetensors");
  model.write("model.safetensors", weights.substr(0, 5));
  model.expect_refused("model.safetensors");
  const std::string name = "model.layers.0.mlp.up_proj.weight";
  model.write("model.safetensors", weights);
  model.edit_header([&](nlohmann::ordered_json& header) {
    auto& shape = header[name]["shape"];
    std::swap(shape[0], shape[1]);
  });
  model.expect_refused(name);
  model.write("model.safetensors", weights);
  model.edit_header([&](nlohmann::ordered_json& header) {
    header[name]["data_offsets"][1] = header[name]["data_offsets"][1].get<uint64_t>() + 64;
  });
  model.expect_refused(name);
  model.write("model.safetensors", weights);
  model.edit_header([&](nlohmann::ordered_json& header) {
    header[name + "x"] = header[name];
    header.erase(name);
  });
  model.expect_refused(name);
}

TEST(BadInputTest, TokenizersAreChecked) {
  SpoiledModel model;
  std::mt19937 random(1);
  std::string garbage(1000, ' ');
  for (char& c : garbage) c = static_cast<char>(random());
  model.write("tokenizer.json", garbage);
  model.expect_refused("tokenizer.json");
  model.write("tokenizer.json", "{}");
  model.expect_refused("tokenizer.json");
}

TEST(BadInputTest, TooLittleMemoryIsReportedBeforeLoading) {
  TemporaryFolder folder;
  auto config = nlohmann::json::parse(read_file(kDemo + "/config.json"));
  config["hidden_size"] = 16384;
  config["intermediate_size"] = 65536;
  config["num_hidden_layers"] = 200;
  folder.write("config.json", config.dump());
  expect_one_line({"generate", folder.path(), "--random-weights", "1", "--prompt-ids", "1"},
                  "memory");
}

TEST(BadInputTest, TooFewDescriptorsAreReportedBeforeAnythingStarts) {
  expect_one_line({"serve"}, "at least 64, found 24", {.wrapper = with_descriptors(24)});
}

// Log lines next to the error are not counted: a busy machine may warn at any time.
TEST(BadInputTest, LinesOfTheLogAreNotCounted) {
  EXPECT_EQ(lines_said("[2026-11-26 16:00:00.000] [lockstep] [warning] held up for 1 s\n"
                       "lockstep: no memory\n"),
            1);
  EXPECT_EQ(lines_said("lockstep: one\nlockstep: two"), 2);
}

TEST(BadInputTest, AWorkerWithoutACoordinatorsAddressSaysSo) {
  expect_one_line({"worker"}, "--coordinator");
  expect_one_line({"generate", "--prompt", "a", "--log-level", "loud"}, "loud");
}

}  // namespace
}  // namespace lockstep::testing
