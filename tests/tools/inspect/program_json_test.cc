// SPDX-License-Identifier: Apache-2.0
// The data for the page of `inspect --html`.
#include "tools/inspect/program_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/status.h"
#include "tests/support/tiny_program.h"
#include "tools/inspect/layer_groups.h"
#include "tools/inspect/program_page.h"
#include "worker/steps/executor.h"

namespace lockstep {
namespace {

using Json = nlohmann::json;

InspectedProgram inspected(const program::Program& program, const ValueParts& parts) {
  InspectedProgram result{.program = &program, .parts = &parts, .totals = {}, .steps = {}};
  result.steps.push_back({"nothing", std::vector<KernelCost>(program.instructions_size())});
  return result;
}

Json json_of(const program::Program& program, const ValueParts& parts = {}) {
  return Json::parse(program_json(inspected(program, parts)));
}

TEST(ProgramJsonTest, InstructionsNameTheirValuesAndWeights) {
  const program::Program program = layer_program(1, 2);
  const Json json = json_of(program);
  ASSERT_EQ(json["instructions"].size(), static_cast<size_t>(program.instructions_size()));
  EXPECT_EQ(json["instructions"][0][0], "embed");
  EXPECT_EQ(json["instructions"][0][1], Json::array({0}));
  EXPECT_EQ(json["instructions"][0][3], Json::array({0}));
  const Json weight = json["weights"][0];
  EXPECT_EQ(weight[0], "embed.weight");
  EXPECT_EQ(weight[6], 36 * 8 * 4);  // Bytes: ids 64 to 99 are this rank's.
  EXPECT_EQ(weight[7], Json::parse(R"([["embed.weight", [100, 8], 64, 100, 0, 8, "", 1]])"));
  EXPECT_EQ(weight[8], false);  // Its rows are not in pairs.
}

TEST(ProgramJsonTest, LayoutsAreDescribedInWords) {
  const program::Program program = tiny_program();
  const ValueParts parts = {{"part", {kPartialLayout, {0, 8}, 8}},
                            {"x", {kWholeLayout, {0, 8}, 8}},
                            {"logits", {split_over(Axis::kVocab), {0, 100}, 164}}};
  const Json values = json_of(program, parts)["values"];
  EXPECT_EQ(values[0][4], "partial: one addend per rank");
  EXPECT_EQ(values[1][4], "whole");
  EXPECT_EQ(values[2][4], "several values side by side");  // Its layout is unknown.
  EXPECT_EQ(values[3][4], "split over vocab: 0-99 of 164");
}

// Returns a program with a weight of `experts` tensors, which are numbered from 7.
program::Program experts_program(int experts) {
  program::Program program = tiny_program();
  program::Weight& weight = *program.mutable_weights(0);
  const program::Piece piece = weight.pieces(0);
  weight.clear_pieces();
  for (int i = 0; i < experts; ++i) {
    *weight.add_pieces() = piece;
    weight.mutable_pieces(i)->set_source("layers.0.experts." + std::to_string(7 + i) + ".w1");
  }
  return program;
}

TEST(ProgramJsonTest, EqualRectanglesOfNumberedTensorsAreShownInOneLine) {
  program::Program program = experts_program(5);
  Json pieces = json_of(program)["weights"][0][7];
  ASSERT_EQ(pieces.size(), 1U);
  EXPECT_EQ(pieces[0][0], "layers.0.experts.{7-11}.w1");
  EXPECT_EQ(pieces[0][7], 5);
  program.mutable_weights(0)->mutable_pieces(2)->set_row_end(50);  // This rectangle differs.
  pieces = json_of(program)["weights"][0][7];
  ASSERT_EQ(pieces.size(), 3U);
  EXPECT_EQ(pieces[0][0], "layers.0.experts.{7-8}.w1");
  EXPECT_EQ(pieces[1][0], "layers.0.experts.9.w1");
  EXPECT_EQ(pieces[2][0], "layers.0.experts.{10-11}.w1");
}

TEST(ProgramJsonTest, NamesCannotEndTheScriptOrBecomeHtml) {
  program::Program program = tiny_program();
  program.set_model("</script><b>");
  const ValueParts parts;
  const std::string json = program_json(inspected(program, parts));
  EXPECT_EQ(json.find('<'), std::string::npos);
  EXPECT_EQ(Json::parse(json)["model"], "</script><b>");
}

TEST(ProgramJsonTest, ThePageIsOneFileThatAllowsOnlyItsOwnScript) {
  const program::Program program = tiny_program();
  const ValueParts parts;
  const std::string page = program_page(inspected(program, parts));
  EXPECT_NE(page.find("script-src 'sha256-"), std::string::npos);
  for (const char* other : {"{{", "src=", "http://", "https://", "unsafe"}) {
    EXPECT_EQ(page.find(other), std::string::npos) << other;
  }
}

TEST(LayerGroupsTest, AnInstructionThatNamesNoLayerBelongsToTheLayerBefore) {
  ProgramBuilder b(0, 1, 100, 8);
  const auto add = [&b](const std::string& name) {
    b.add(program::MAP, {}, {}, {b.value(name, 8)});
  };
  for (const char* name : {"embed", "h.0.norm", "rope_table", "h.0.add", "h.1.up+h.1.gate",
                           "h.10.add_2", "norm", "head"}) {
    add(name);
  }
  std::vector<std::string> found;
  for (const LayerGroup& group : layer_groups(b.program)) {
    found.push_back(group.name + " " + std::to_string(group.first) + "-" +
                    std::to_string(group.end));
  }
  EXPECT_EQ(found, (std::vector<std::string>{"before the layers 0-1", "layer 0 1-4", "layer 1 4-5",
                                             "layer 10 5-6", "after the layers 6-8"}));
}

TEST(InstructionCostsTest, CostsAreThoseOfTheKernelsThatWouldRun) {
  const program::Program program = layer_program();
  const Bindings bindings = bind(program, cpu_backend()).value();
  const StepSequence sequence = {.rows = 3, .first_position = 5};
  const StepView step = {.rows = 3, .sequences = &sequence, .sequence_count = 1, .output_count = 1};
  const std::vector<KernelCost> costs = instruction_costs(program, bindings, step);
  ASSERT_EQ(costs.size(), static_cast<size_t>(program.instructions_size()));
  for (int i = 0; i < program.instructions_size(); ++i) {
    const program::Instruction& instruction = program.instructions(i);
    if (instruction.op() == program::COLUMNS) {
      EXPECT_EQ(costs[i].bytes, 0);
    }
    if (instruction.op() == program::RMS_NORM) {
      EXPECT_EQ(costs[i].bytes, (3 * 8 + 8 + 3 * 8) * 4);
    }
    if (instruction.op() != program::LINEAR) continue;
    const program::Value& in = program.values(instruction.inputs(0).value());
    const int64_t cols = program.values(instruction.outputs(0)).cols();
    EXPECT_EQ(costs[i].flops, 2 * (in.rows() == kTokenRows ? 3 : 1) * in.cols() * cols);
  }
}

}  // namespace
}  // namespace lockstep
