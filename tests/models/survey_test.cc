// SPDX-License-Identifier: Apache-2.0
// tools/survey recorded facts about small models of every architecture that transformers knows.
// Each model has the config that its class in transformers saves. These tests expect that the
// config is accepted, and that it describes the same model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "models/models.h"
#include "models/summary.h"
#include "models/tensor_check.h"
#include "models/tensor_names.h"
#include "tests/models/spelled_tensors.h"
#include "tests/support/files/test_data.h"

namespace lockstep {
namespace {

using Shapes = std::map<std::string, std::vector<int64_t>>;

struct Surveyed {
  std::string release;
  Json model;

  friend void PrintTo(const Surveyed& surveyed, std::ostream* out) {
    *out << surveyed.release << " " << surveyed.model["name"];
  }
};

std::vector<Surveyed> surveyed() {
  std::vector<Surveyed> models;
  for (const auto& file : std::filesystem::directory_iterator(test_data("tests/data/survey"))) {
    std::ifstream lines(file.path());
    for (std::string line; std::getline(lines, line);) {
      models.push_back({file.path().stem().string(), Json::parse(line)});
    }
  }
  return models;
}

// Adds the shape under each name that `name` stands for: "{0-2}" stands for 0, 1 and 2.
void expand(const std::string& name, const std::vector<int64_t>& shape, Shapes& shapes) {
  const size_t begin = name.find('{'), dash = name.find('-', begin), end = name.find('}', begin);
  if (begin == name.npos) {
    shapes[name] = shape;
    return;
  }
  const int last = std::stoi(name.substr(dash + 1));
  for (int i = std::stoi(name.substr(begin + 1)); i <= last; ++i) {
    expand(name.substr(0, begin) + std::to_string(i) + name.substr(end + 1), shape, shapes);
  }
}

naive::Tensors zeros(const Shapes& shapes) {
  naive::Tensors tensors;
  for (const auto& [name, shape] : shapes) {
    int64_t count = 1;
    for (const int64_t size : shape) count *= size;
    tensors[name] = {.shape = shape, .data = std::vector<float>(static_cast<size_t>(count))};
  }
  return tensors;
}

class SurveyTest : public testing::TestWithParam<Surveyed> {
 protected:
  // Describes the model. If the test has written a checkpoint to the folder, it is read, too.
  ModelDescription described() {
    std::ofstream(folder_.path() / "config.json") << model_["config"].dump();
    absl::StatusOr<ModelDescription> model = describe_model(folder_.path(), {}, 0);
    EXPECT_TRUE(model.ok()) << model.status();
    return model.ok() ? *std::move(model) : ModelDescription();
  }

  const TempFolder folder_;
  const Json model_ = GetParam().model;
};

TEST_P(SurveyTest, TensorsAreThoseOfTheClassInEveryForm) {
  for (const auto& [form, folded] : model_["tensors"].items()) {
    SCOPED_TRACE(form);
    Shapes wanted;
    for (const auto& [name, shape] : folded.items()) expand(name, shape, wanted);
    write_checkpoint(folder_.path(), zeros(wanted));
    const absl::StatusOr<Checkpoint> checkpoint = Checkpoint::open(folder_.path());
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
    ModelDescription model = described();
    EXPECT_THAT(use_names_of(*checkpoint, model.config, model.graph), testing::IsEmpty());
    EXPECT_TRUE(check_tensors(*checkpoint, model.graph).ok());
    EXPECT_EQ(unread_tensors(*checkpoint, model.graph), "");
    const Summary summary = summarize(model.graph);
    EXPECT_EQ(summary.tensors, wanted);
    EXPECT_EQ(summary.parameters, model_["parameters"]);
  }
}

// survey.py's tolerance: the powers of torch in float32 differ by more than 4 units in the last
// place.
testing::Matcher<float> near(float wanted) {
  return testing::FloatNear(wanted, 1e-6f * std::abs(wanted));
}

// A class that computes angles without a table reports no table.
TEST_P(SurveyTest, RopeAndWindowsAreThoseOfTheClass) {
  const Summary summary = summarize(described().graph);
  const Json& wanted = model_["rotary"];
  EXPECT_TRUE(wanted.empty() || wanted.size() == summary.rotary.size()) << summary.rotary.size();
  for (size_t i = 0; i < std::min(wanted.size(), summary.rotary.size()); ++i) {
    const RotarySummary& table = summary.rotary[i];
    EXPECT_EQ(table.count, wanted[i]["count"]);
    EXPECT_THAT(table.first, near(wanted[i]["first"]));
    EXPECT_THAT(table.last, near(wanted[i]["last"]));
    EXPECT_THAT(table.factor, near(wanted[i]["factor"]));
  }
  for (const auto& [layer, window] : summary.windows) {
    EXPECT_EQ(window, model_["windows"].value(std::to_string(layer), int64_t{0})) << layer;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, SurveyTest, testing::ValuesIn(surveyed()), [](const auto& test) {
  std::string name =
      test.param.release + "_" + test.param.model["name"].template get<std::string>();
  std::ranges::replace_if(
      name, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
});

}  // namespace
}  // namespace lockstep
