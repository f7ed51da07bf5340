// SPDX-License-Identifier: Apache-2.0
// A way to break a valid program, and the expected error.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "proto/program.pb.h"

namespace lockstep {

struct Mutation {
  const char* name;
  const char* message;
  std::function<void(program::Program&)> apply;
};

class MutationTest : public ::testing::TestWithParam<Mutation> {};

inline const char* mutation_name(const ::testing::TestParamInfo<Mutation>& info) {
  return info.param.name;
}

// Three look-ups: the which-th instruction of an operator (0 is the first), that instruction's
// first output, and the weight with this name.
inline program::Instruction& find(program::Program& program, program::Op op, int which = 0) {
  for (program::Instruction& instruction : *program.mutable_instructions()) {
    if (instruction.op() == op && which-- == 0) return instruction;
  }
  ADD_FAILURE() << "no " << program::Op_Name(op);
  return *program.mutable_instructions(0);
}

inline program::Value& output_of(program::Program& program, program::Op op, int which = 0) {
  return *program.mutable_values(find(program, op, which).outputs(0));
}

inline program::Weight& weight_named(program::Program& program, const std::string& name) {
  for (program::Weight& weight : *program.mutable_weights()) {
    if (weight.name() == name) return weight;
  }
  ADD_FAILURE() << "no weight " << name;
  return *program.mutable_weights(0);
}

}  // namespace lockstep
