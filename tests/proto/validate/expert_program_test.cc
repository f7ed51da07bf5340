// SPDX-License-Identifier: Apache-2.0
// A hand-made program with experts: valid as it is, and broken in one way at a time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "base/status.h"
#include "proto/print.h"
#include "proto/validate/validate.h"
#include "tests/proto/validate/mutation.h"
#include "tests/support/tiny_program.h"

namespace lockstep {
namespace {

using program::Program;
using P = Program&;
using ::testing::HasSubstr;

constexpr int64_t kVocab = 100, kHidden = 8, kFfn = 6, kExperts = 4, kChosen = 3;
constexpr int kRoutes = 2;  // The routes' row domain.

int expert_linear(ProgramBuilder& b, int x, int ids, const std::string& name, int64_t cols) {
  const int64_t depth = b.program.values(x).cols(), rows = kExperts * cols;
  const int weight = b.weight(name + ".weight", program::LINEAR_WEIGHT, rows, depth, 0, rows);
  const int bias = b.weight(name + ".bias", program::BIAS, 1, rows, 0, rows);
  for (const int w : {weight, bias}) b.program.mutable_weights(w)->set_matrices(kExperts);
  const int out = b.value(name, cols, kRoutes);
  b.add(program::EXPERT_LINEAR, {x, ids}, {weight, bias}, {out})
      .mutable_attributes()
      ->mutable_expert()
      ->set_experts(kExperts);
  return out;
}

// The program is embed, router, route, up, down, expert_scale, combine, head.
Program expert_program() {
  ProgramBuilder b(0, 1, kVocab, kHidden);
  program::RowDomain& routes = *b.program.add_row_domains();
  routes.set_name("routes");
  routes.set_of(program::TOKENS);
  routes.set_rows_each(kChosen);
  const int embedding = b.weight("embed.weight", program::EMBEDDING, kVocab, kHidden, 0, kVocab);
  const int x = b.value("x", kHidden), scores = b.value("scores", kExperts);
  b.add(program::EMBED, {}, {embedding}, {x}).mutable_attributes()->mutable_embed();
  const int gate = b.weight("gate.weight", program::ROUTER, kExperts, kHidden, 0, kExperts);
  b.add(program::LINEAR, {x}, {gate}, {scores});
  const int choice = b.weight("choice", program::BIAS, 1, kExperts, 0, kExperts);
  const int ids = b.value("ids", 1, kRoutes, program::I32),
            weights = b.value("weights", 1, kRoutes);
  program::RouteAttrs& route = *b.add(program::ROUTE, {scores}, {choice}, {ids, weights})
                                    .mutable_attributes()
                                    ->mutable_route();
  route.set_chosen(kChosen);
  route.set_groups(2);
  route.set_chosen_groups(2);
  route.set_scale(1);
  const int up = expert_linear(b, x, ids, "up", kFfn);
  const int down = expert_linear(b, up, ids, "down", kHidden);
  const int sum = b.value("sum", kHidden), last = b.value("last", kHidden, kOutputRows);
  const int scale = b.weight("scale", program::NORM, 1, kExperts, 0, kExperts);
  const int scaled = b.value("scaled", 1, kRoutes);
  b.add(program::EXPERT_SCALE, {weights, ids}, {scale}, {scaled});
  b.add(program::COMBINE, {down, scaled}, {}, {sum});
  b.add(program::SELECT_ROWS, {sum}, {}, {last});
  const int head = b.weight("head.weight", program::HEAD_WEIGHT, kVocab, kHidden, 0, kVocab);
  const int logits = b.value("logits", kVocab, kOutputRows);
  b.add(program::LINEAR, {last}, {head}, {logits});
  b.add(program::TOP_CANDIDATES, {logits}, {}, {}).mutable_attributes()->mutable_top_candidates();
  return b.program;
}

program::RouteAttrs& route_of(P p) {
  return *find(p, program::ROUTE).mutable_attributes()->mutable_route();
}

TEST(ExpertProgramTest, TheProgramIsValidWithAndWithoutBiases) {
  Program program = expert_program();
  EXPECT_EQ(message_of(validate(program)), "");
  EXPECT_THAT(to_text(program), HasSubstr("route(%1 scores, w2 choice) {chosen 3 groups 2"));
  for (program::Instruction& instruction : *program.mutable_instructions()) {
    if (instruction.op() == program::EXPERT_LINEAR || instruction.op() == program::ROUTE) {
      instruction.mutable_inputs()->RemoveLast();
    }
  }
  EXPECT_EQ(message_of(validate(program)), "");
}

class ExpertMutationTest : public MutationTest {};

TEST_P(ExpertMutationTest, ABrokenProgramIsRefusedAndTheFaultIsNamed) {
  Program program = expert_program();
  GetParam().apply(program);
  const absl::Status status = validate(program);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(message_of(status), HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    Experts, ExpertMutationTest,
    ::testing::ValuesIn(std::vector<Mutation>{
        {"MoreChosenThanExperts", "chosen must be 1 to 4", [](P p) { route_of(p).set_chosen(5); }},
        {"NoneChosen", "chosen must be 1 to 1024, found 0", [](P p) { route_of(p).set_chosen(0); }},
        {"NoGroups", "groups must be 1 to 1024, found 0", [](P p) { route_of(p).set_groups(0); }},
        {"UnevenGroups", "experts outside whole groups", [](P p) { route_of(p).set_groups(3); }},
        {"GroupsTooSmall", "chosen must be 1 to 2", [](P p) { route_of(p).set_chosen_groups(1); }},
        {"ManyGroups", "chosen_groups must be", [](P p) { route_of(p).set_chosen_groups(3); }},
        {"GroupOfOne", "two experts where best_two",
         [](P p) {
           route_of(p).set_groups(4);
           route_of(p).set_chosen_groups(4);
           route_of(p).set_best_two(true);
         }},
        {"TwoWaysToScore", "must not both be set",
         [](P p) {
           route_of(p).set_sigmoid(true);
           route_of(p).set_softmax_of_chosen(true);
         }},
        {"ScaleNan", "scale must be", [](P p) { route_of(p).set_scale(NAN); }},
        {"ScaledByFloats", "must be int32",
         [](P p) {
           program::Instruction& scale = find(p, program::EXPERT_SCALE);
           *scale.mutable_inputs(1) = scale.inputs(0);
         }},
        {"ScalesOfNoExperts", "columns of the weight must be 1 to 1024, found 0",
         [](P p) {
           weight_named(p, "scale").set_cols(0);
           weight_named(p, "scale").mutable_pieces(0)->set_col_end(0);
         }},
        {"FewerRoutes", "rows of the ids for each token must be 2",
         [](P p) { route_of(p).set_chosen(2); }},
        {"ChoiceBias", "columns of the bias must be 4",
         [](P p) {
           weight_named(p, "choice").set_cols(3);
           weight_named(p, "choice").mutable_pieces(0)->set_col_end(3);
         }},
        {"IdsAreFloats", "must be int32",
         [](P p) { output_of(p, program::ROUTE).set_dtype(program::F32); }},
        {"IdsAreWide", "columns of the ids must be 1",
         [](P p) {
           output_of(p, program::ROUTE).set_cols(2);
           output_of(p, program::ROUTE).set_stride(2);
         }},
        {"WeightsAreInts", "must be float32",
         [](P p) {
           p.mutable_values(find(p, program::ROUTE).outputs(1))->set_dtype(program::I32);
         }},
        {"FloatsAsIds", "must be int32",
         [](P p) {
           find(p, program::EXPERT_LINEAR)
               .mutable_inputs(1)
               ->set_value(find(p, program::ROUTE).outputs(1));
         }},
        {"IdsAsRows", "must be float32, found int32",
         [](P p) {
           find(p, program::COMBINE)
               .mutable_inputs(0)
               ->set_value(find(p, program::ROUTE).outputs(0));
         }},
        {"NoExperts", "experts must be 1 to",
         [](P p) {
           find(p, program::EXPERT_LINEAR).mutable_attributes()->mutable_expert()->set_experts(0);
         }},
        {"OtherExperts", "matrices of the weight must be 2",
         [](P p) {
           find(p, program::EXPERT_LINEAR).mutable_attributes()->mutable_expert()->set_experts(2);
         }},
        {"OneMatrix", "matrices of the weight must be 4",
         [](P p) { weight_named(p, "up.weight").set_matrices(0); }},
        {"OneBias", "matrices of the bias must be 4",
         [](P p) { weight_named(p, "up.bias").set_matrices(0); }},
        {"UnevenMatrices", "matrices must be",
         [](P p) { weight_named(p, "up.weight").set_matrices(5); }},
        {"NegativeMatrices", "matrices must be",
         [](P p) { weight_named(p, "up.weight").set_matrices(-4); }},
        {"MatricesOfALinear", "matrices of the weight must be 1",
         [](P p) { weight_named(p, "head.weight").set_matrices(2); }},
        {"OutputColumns", "rows of the weight must be 20",
         [](P p) { output_of(p, program::EXPERT_LINEAR).set_cols(5); }},
        {"RoutesOfOutputs", "rows of the ids for each token must be 3, found 0",
         [](P p) { p.mutable_row_domains(kRoutes)->set_of(program::OUTPUTS); }},
        {"CombinedRows", "rows of the output for each token must be 1",
         [](P p) { output_of(p, program::COMBINE).set_rows(kRoutes); }},
        {"CombinedColumns", "columns of the output must be 8",
         [](P p) { output_of(p, program::COMBINE).set_cols(7); }},
        {"RouterQuantized", "dtype must be float32",
         [](P p) { weight_named(p, "gate.weight").set_dtype(program::Q8); }},
    }),
    mutation_name);

}  // namespace
}  // namespace lockstep
