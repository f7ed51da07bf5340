// SPDX-License-Identifier: Apache-2.0
// docs/models.md is generated from the program's tables and from the goldens that test them.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/source_dir.h"
#include "models/architecture.h"
#include "models/config/refused.h"
#include "models/config/wrappers.h"
#include "tests/support/files/test_data.h"
#include "tests/support/files/written_page.h"
#include "tests/support/goldens/golden_names.h"

namespace lockstep {
namespace {

constexpr char kHead[] = R"(# Models

The models that run, by the name in `architectures` of config.json, and the small reference models
that the tests compare with: in float32 the logits of a prompt agree with the reference's within
2e-4 of the largest, and the greedy tokens are the same, on 1, 2, 3 and 5 workers (as far as there
are heads) under both strategies. The reference is Hugging Face transformers or the published code.
An architecture without one has the maths and names of another that has; its config.json is tested.

A test writes this page: `LOCKSTEP_REWRITE=1 build/cpu/tests/models_test`.

| architecture | agrees with the reference on |
| --- | --- |
)";
constexpr char kWrappers[] = R"(
transformers decides what a key means: like transformers, and unlike some servers, we ignore
`attn_factor` of YaRN (they multiply by it) and `dual_chunk_attention_config`.

The text part of these runs (`text_config`, `language_config` or `llm_config`, of any architecture
above that its `model_type` names, or the whole file); vision and audio parts are not read:

)";
constexpr char kRefused[] = R"(
These are refused by name, with the reason. Any other name is an error with the nearest ones above.
A key of config.json that nothing reads passes where a rule says that it decides nothing; all others
are one error with the `--ignore-config` flags that run without them.

| architecture | why not |
| --- | --- |
)";

constexpr char kNotes[] = R"(
## Names of tensors

A tensor may have the name that its family publishes, that of a class of transformers 5, or one
without the name that all begin with; experts may be single or in stacks, layer by layer
(`models/tensor_names.cc` has the table). A head in the checkpoint is used even where config.json
ties it to the embedding.

## Where implementations differ

- `NemotronHForCausalLM`: transformers 5.24 raises each step of Mamba to `time_step_min` at least.
  Here steps are as the model computes them, with SGLang and mlx-lm: `time_step_min` is for drawing
  weights, and `time_step_limit`, which bounds steps, is [0, infinity] in what is published. If
  no step is below (0.001), nothing differs; on random weights it was 7e-4 of the largest logit.
)";

// The goldens of each architecture, in their order.
std::map<std::string, std::string> goldens() {
  std::map<std::string, std::string> found;
  for (const GoldenName& golden : kGoldens) {
    std::ifstream file(test_data(golden.name) / "config.json");
    const std::string architecture = nlohmann::json::parse(file)["architectures"][0];
    const std::string path = golden.name;
    std::string& names = found[architecture];
    names += (names.empty() ? "" : ", ") + path.substr(path.rfind('/') + 1);
  }
  return found;
}

std::string models_page() {
  std::map<std::string, std::string> checked = goldens();
  std::string page = kHead;
  for (const Architecture& known : architectures()) {
    if (known.is != nullptr) continue;  // An alias of another row.
    const std::string name(known.name);
    page += "| `" + name + "` | " + checked[name] + " |\n";
  }
  page += kWrappers;
  for (const std::string_view name : wrapper_names()) {
    const std::string& names = checked[std::string(name)];
    page += "- `" + std::string(name) + "`" + (names.empty() ? "" : " (" + names + ")") + "\n";
  }
  page += kRefused;
  for (const RefusedArchitecture& refused : refused_architectures()) {
    page += "| `" + std::string(refused.name) + "` | " + std::string(refused.because) + " |\n";
  }
  return page + kNotes;
}

TEST(ModelsPageTest, TheModelsPageIsGeneratedFromTheTablesAndTheGoldens) {
  for (const GoldenName& golden : kGoldens) LOCKSTEP_NEEDS_TEST_DATA(golden.name);
  expect_page("models.md", models_page());
}

TEST(ModelsPageTest, OtherPagesHaveTheNumberOfArchitectures) {
  const int64_t count = std::ranges::count_if(
      architectures(), [](const Architecture& known) { return known.is == nullptr; });
  for (const auto& [page, words] : {std::pair("README.md", " names of architectures"),
                                    std::pair("CHANGELOG.md", " architectures, among")}) {
    std::ifstream file(std::string(LOCKSTEP_SOURCE_DIR) + "/" + page);
    const std::string text(std::istreambuf_iterator<char>(file), {});
    const std::string wanted = " " + std::to_string(count) + words;
    EXPECT_NE(text.find(wanted), std::string::npos) << page << " must have \"" << wanted << '"';
  }
}

TEST(ModelsPageTest, NoArchitectureIsBothSupportedAndRefused) {
  for (const RefusedArchitecture& refused : refused_architectures()) {
    for (const Architecture& known : architectures()) EXPECT_NE(known.name, refused.name);
    for (const std::string_view name : wrapper_names()) EXPECT_NE(name, refused.name);
  }
}

}  // namespace
}  // namespace lockstep
