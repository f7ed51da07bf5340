// SPDX-License-Identifier: Apache-2.0
// Prompts with rows of embeddings. With rows of the model's own embedding table, the answer has the
// same bits as with the ids of these rows.
#include <csignal>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/numbers/float16.h"
#include "base/source_dir.h"
#include "tests/support/goldens/golden_case.h"
#include "tests/support/processes/server.h"
#include "tests/tools/commands/json_lines.h"

namespace lockstep::testing {
namespace {

constexpr int64_t kHidden = 192;  // The demo model's width.

// A prompt with the ids 100, 101, ... The positions from `begin` to `end` can be given as rows.
struct MixedPrompt {
  int64_t tokens, begin, end;

  int64_t rows() const { return end - begin; }
  std::vector<int32_t> ids(bool as_rows) const {
    std::vector<int32_t> ids;
    for (int64_t i = 0; i < tokens; ++i) {
      ids.push_back(as_rows && begin <= i && i < end ? -1 : static_cast<int32_t>(100 + i));
    }
    return ids;
  }
  std::string embeds() const {
    static const naive::Tensors demo =
        load_safetensors(LOCKSTEP_SOURCE_DIR "/demo/model.safetensors");
    const std::vector<float>& table = demo.at("model.embed_tokens.weight").data;
    return {reinterpret_cast<const char*>(table.data() + (100 + begin) * kHidden),
            static_cast<size_t>(rows() * kHidden) * sizeof(float)};
  }
};

// A file as numpy.save writes it.
std::string npy(int64_t rows, int64_t cols, const std::string& bytes,
                const std::string& type = "<f4") {
  std::string header = "{'descr': '" + type + "', 'fortran_order': False, 'shape': (" +
                       std::to_string(rows) + ", " + std::to_string(cols) + "), }";
  header.resize(118 - 1, ' ');
  return std::string("\x93NUMPY\x01\x00\x76\x00", 10) + header + "\n" + bytes;
}

std::string joined(const std::vector<int32_t>& ids) {
  std::string text;
  for (const int32_t id : ids) text += (text.empty() ? "" : ",") + std::to_string(id);
  return text;
}

v1::GenerateRequest request_of(const MixedPrompt& prompt, bool as_rows, int max_tokens) {
  v1::GenerateRequest request;
  const std::vector<int32_t> ids = prompt.ids(as_rows);
  request.mutable_prompt_ids()->mutable_ids()->Add(ids.begin(), ids.end());
  if (as_rows) request.set_prompt_embeds(prompt.embeds());
  request.set_max_tokens(max_tokens);
  request.set_seed(3);
  request.set_ignore_eos(true);
  return request;
}

TEST(PromptEmbedsTest, RowsOfTheTableGiveTheBitsOfTheirIdsForAnyChunks) {
  const TemporaryFolder folder;
  for (const MixedPrompt& prompt :
       {MixedPrompt{60, 0, 60}, MixedPrompt{60, 20, 45}, MixedPrompt{60, 59, 60}}) {
    const std::string rows = folder.write("rows.npy", npy(prompt.rows(), kHidden, prompt.embeds()));
    const std::vector<std::string> same = {"--max-tokens", "12", "--seed", "3", "--logits"};
    const auto run = [&](bool as_rows, const char* workers, const char* chunk) {
      std::vector<std::string> flags = {"--prompt-ids", joined(prompt.ids(as_rows)), "--workers",
                                        workers,        "--prefill-chunk",           chunk};
      if (as_rows) flags.insert(flags.end(), {"--prompt-embeds", rows});
      flags.insert(flags.end(), same.begin(), same.end());
      return generate_json(flags).at(0);
    };
    const nlohmann::json wanted = run(false, "1", "512");
    EXPECT_EQ(run(true, "1", "512"), wanted);
    EXPECT_EQ(run(true, "3", "7"), wanted);
  }
}

TEST(PromptEmbedsTest, ALostWorkerChangesNothingAndThePromptIsNotCached) {
  Server server({"--workers", "2", "--prompt-embeds"});
  const MixedPrompt prompt = {60, 10, 50};
  const Answered by_ids = server.generate(request_of(prompt, false, 300));
  ASSERT_TRUE(by_ids.status.ok()) << by_ids.status.error_message();
  Answered by_rows;
  std::thread client([&] { by_rows = server.generate(request_of(prompt, true, 300)); });
  EXPECT_TRUE(server.eventually([](const auto& model) { return model.running() == 1; }));
  kill(server.workers().at(1), SIGKILL);
  client.join();
  EXPECT_TRUE(by_rows.status.ok()) << by_rows.status.error_message();
  EXPECT_EQ(by_rows.tokens, by_ids.tokens);
  const int64_t hits = server.model().prefix_hits();
  EXPECT_EQ(server.generate(request_of(prompt, true, 300)).tokens, by_ids.tokens);
  EXPECT_EQ(server.model().prefix_hits(), hits);
}

TEST(PromptEmbedsTest, AServerAcceptsEmbeddingsOnlyWithItsFlag) {
  Server server;
  const Answered answer = server.generate(request_of({8, 2, 4}, true, 2));
  EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_NE(answer.status.error_message().find("--prompt-embeds"), std::string::npos);
}

TEST(PromptEmbedsTest, TheErrorForAnInvalidFileSaysInOneLineWhatItMustBe) {
  const TemporaryFolder folder;
  const MixedPrompt prompt = {8, 2, 4};
  const std::string good = npy(2, kHidden, prompt.embeds());
  std::string infinite = good;
  infinite.replace(infinite.size() - 4, 4, std::string("\x00\x00\x80\x7f", 4));
  std::string columns = good;
  columns.replace(columns.find("False"), 5, "True ");
  const std::pair<std::string, std::string> cases[] = {
      {"", "numpy.save"},
      {"\x93NUMPY", "numpy.save"},
      {good.substr(0, 40), "header"},
      {npy(2, kHidden, prompt.embeds(), "<f8"), "float32"},
      {npy(2, kHidden, ""), "after the header"},
      {good + "x", "after the header"},
      {npy(999999999, 999999999, ""), "after the header"},
      {npy(2 * kHidden, 1, prompt.embeds()), "hidden size 192"},
      {npy(1, kHidden, prompt.embeds().substr(0, kHidden * 4)), "2 rows"},
      {columns, "row by row"},
      {infinite, "finite"},
  };
  for (const auto& [content, says] : cases) {
    const ProcessResult result =
        run_lockstep({"generate", "--prompt-ids", joined(prompt.ids(true)), "--prompt-embeds",
                      folder.write("rows.npy", content)});
    EXPECT_EQ(result.code, 2) << says;
    EXPECT_NE(result.err.find(says), std::string::npos) << result.err;
    EXPECT_EQ(lines_said(result.err), 1) << result.err;
  }
}

}  // namespace
}  // namespace lockstep::testing
