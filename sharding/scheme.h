// SPDX-License-Identifier: Apache-2.0
// The ways to quantize a model, by name: the type in which each role's weights are stored. One
// table; flags, files and documents use its names.
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
  // These decide a token directly, or are read one row per token: 4 bits would cost more than they
  // save. Both have the same type, because a tied model has one matrix for both.
  DType head = DType::kQ8;
  DType embedding = DType::kQ8;

  // float32 for norms and biases.
  DType kind_of(program::Role role) const;
};

std::span<const Scheme> schemes();
// Null if there is no scheme with that name.
const Scheme* find_scheme(std::string_view name);
// "q8, q4, ...".
std::string scheme_names(std::string_view separator = ", ");

// Why there is no scheme with that name, for the end of a message: "must be one of q8, ...", or
// that it was removed and which one to use.
std::string no_such_scheme(std::string_view name);

}  // namespace lockstep
