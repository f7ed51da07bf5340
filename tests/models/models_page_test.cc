// SPDX-License-Identifier: Apache-2.0
// docs/models.md is generated from the program's tables and from the goldens that test them.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
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

This page lists the models that run, by their name in the key `architectures` of config.json. Next
to each name are the goldens of that architecture: small reference models with which tests compare
Lockstep's results. In float32 the logits of a prompt agree with the reference's within 2e-4 of the
largest logit, and the greedy tokens are the same. That holds on 1, 2, 3 and 5 workers (if there are
that many heads) and for both strategies. The reference is Hugging Face transformers or the
published code. An architecture without a golden has the maths and the tensor names of one with a
golden; only its config.json is tested.

A test writes this page: `LOCKSTEP_REWRITE=1 build/cpu/tests/models_test`.

| architecture | agrees with the reference on |
| --- | --- |
)";
constexpr char kWrappers[] = R"(
A key of config.json has the same meaning as in transformers. So `dual_chunk_attention_config` and
YaRN's `attn_factor` are ignored; some servers multiply by `attn_factor`.

For these models the text part runs. The object `text_config`, `language_config` or `llm_config` of
config.json describes this part, or the whole file does. The `model_type` of the object or of the
file names one of the architectures above. Vision and audio parts are not read.

)";
constexpr char kRefused[] = R"(
These names are refused, with the reason. Any other name is an error that shows the nearest names
above. A key of config.json that no code reads is accepted if a rule says that it is harmless. All
other unread keys are one error, which lists the `--ignore-config` flags to run without these keys.

| architecture | why not |
| --- | --- |
)";

constexpr char kNotes[] = R"(
## Names of tensors

A tensor may have the name in its family's published files, the name in transformers 5, or a name
without the prefix that all names have. The experts of a layer may be single tensors or stacks.
`models/tensor_names.cc` has the table. If the checkpoint has a head, this head is used, even if
config.json ties the head to the embedding.

## Where implementations differ

- `NemotronHForCausalLM`: transformers 5.24 raises time steps of Mamba that are below
  `time_step_min` to that value. Lockstep, SGLang and mlx-lm leave time steps as the model computes
  them, and use `time_step_min` only to draw random weights. `time_step_limit` bounds time steps; it
  is [0, infinity] in published files. If no time step is below 0.001, nothing differs. On random
  weights the difference was 7e-4 of the largest logit.
)";

// The names of each architecture's goldens, in the order of kGoldens.
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

TEST(ModelsPageTest, ReadmeAndChangelogHaveTheNumberOfArchitectures) {
  const std::string names = std::to_string(std::ranges::count_if(
      architectures(), [](const Architecture& known) { return known.is == nullptr; }));
  const std::string sights = std::to_string(std::ssize(wrapper_names()));
  for (const auto& [page, text] : {std::pair("README.md", names + " names of architectures"),
                                   std::pair("README.md", sights + " more names"),
                                   std::pair("CHANGELOG.md", names + " architectures")}) {
    std::stringstream read;
    read << std::ifstream(std::string(LOCKSTEP_SOURCE_DIR) + "/" + page).rdbuf();
    EXPECT_NE(read.str().find(text), std::string::npos) << page << " must say: " << text;
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
