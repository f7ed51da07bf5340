// SPDX-License-Identifier: Apache-2.0
// The ways to quantize a model, by name: the type in which each role's weights are stored. Flags,
// files and documents use the names of this one table.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/numbers/dtype.h"
#include "proto/program.pb.h"

namespace lockstep {

struct Scheme {
  std::string_view name;
  DType linear = DType::kNone;
  // The head decides a token directly, and only one row of the embedding is read per token: 4 bits
  // would cost more than they save. Both have the same type: a tied model has one matrix for both.
  DType head = DType::kQ8;
  DType embedding = DType::kQ8;

  // The stored type of a role's weights; float32 for norms and biases.
  DType kind_of(program::Role role) const;
};

std::span<const Scheme> schemes();
// Null if there is no scheme with that name.
const Scheme* find_scheme(std::string_view name);
// "q8, q4, ...".
std::string scheme_names(std::string_view separator = ", ");

// The reason why there is no scheme with that name, for the end of a message: "must be one of q8,
// ...", or "that scheme was removed: use ...".
std::string no_such_scheme(std::string_view name);

}  // namespace lockstep
