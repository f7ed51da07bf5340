// SPDX-License-Identifier: Apache-2.0
// The ways to quantize a model, by name: which kind each role's weights are kept in, and in which
// type linears take their input. One table; flags, files and documents use its names.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/dtype.h"
#include "proto/program.pb.h"

namespace lockstep {

struct Scheme {
  std::string_view name;
  DType linear = DType::kNone;
  // What linears take: float32, which their kernel rounds to int8, or bfloat16.
  DType input = DType::kF32;
  // These decide a token alone, or are read a row a token: 4 bits would cost more than they save.
  // Both are of one kind, since a tied model has one matrix for both.
  DType head = DType::kQ8;
  DType embedding = DType::kQ8;

  // float32 for norms and biases.
  DType kind_of(program::Role role) const;
};

std::span<const Scheme> schemes();
// Null where there is none of that name.
const Scheme* find_scheme(std::string_view name);
std::string scheme_names();  // "q8, q4, ...".

}  // namespace lockstep
