// SPDX-License-Identifier: Apache-2.0
// Published config.json files: each is accepted with its model's number of parameters, and compiles
// for one worker and for three, or is refused for the reason given in the table.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "base/status.h"
#include "models/summary.h"
#include "tests/sharding/test_models.h"
#include "tests/support/files/temp_folder.h"
#include "tests/support/files/test_data.h"

namespace lockstep {
namespace {

// The number of parameters in billions (column 5) by file name (column 1), from the table in the
// configs' README.md.
std::map<std::string, double> published_models() {
  std::map<std::string, double> models;
  std::ifstream page(test_data("configs") / "README.md");
  for (std::string line; std::getline(page, line);) {
    std::vector<std::string> cells;
    std::stringstream row(line);
    for (std::string cell; std::getline(row, cell, '|');) cells.push_back(cell);
    if (cells.size() < 6 || cells[1].find("model") != cells[1].npos) continue;
    const std::string name = cells[1].substr(1, cells[1].size() - 2);
    if (std::filesystem::exists(test_data("configs") / (name + ".json"))) {
      models[name] = std::stod(cells[5]);
    }
  }
  return models;
}

absl::StatusOr<ModelDescription> describe(const std::string& name) {
  const TempFolder folder;
  std::filesystem::copy(test_data("configs") / (name + ".json"), folder.path() / "config.json");
  return describe_model(folder.path(), {}, 0);
}

TEST(PublishedConfigsTest, EachModelHasItsNumberOfParametersOnOneWorkerAndOnThree) {
  LOCKSTEP_NEEDS_TEST_DATA("configs");
  const std::map<std::string, double> models = published_models();
  EXPECT_GT(models.size(), 30u);
  for (const auto& [name, billions] : models) {
    SCOPED_TRACE(name);
    const absl::StatusOr<ModelDescription> model = describe(name);
    if (name.find("FP8") != name.npos) {
      EXPECT_THAT(message_of(model.status()), testing::HasSubstr("by the method"));
      continue;
    }
    ASSERT_TRUE(model.ok()) << model.status();
    const double found = static_cast<double>(summarize(model->graph).parameters) / 1e9;
    EXPECT_NEAR(found, billions, std::max(billions * 5e-4, 5e-4));
    for (const int ranks : {1, 3}) {
      const auto programs = compile(model->graph, options_for(ranks, Strategy::kGather));
      EXPECT_TRUE(programs.ok()) << ranks << ": " << programs.status();
    }
  }
}

}  // namespace
}  // namespace lockstep
