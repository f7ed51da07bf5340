// SPDX-License-Identifier: Apache-2.0
// A verification as text and JSON.
#pragma once

#include <cstdint>
#include <string>

#include "proto/program.pb.h"
#include "tools/verify/verify.h"

namespace lockstep {

// The two sides of a verification.
struct VerifyContext {
  const program::Program* program = nullptr;  // The program of rank 0.
  std::string reference;                      // "transformers 5.23.0", or a file.
  int64_t tokens = 0;                         // In the prompt.
  double tolerance = 0;
};

// A line per layer with its largest error, then the first difference, if any, and its possible
// causes. Ends with a line feed.
std::string verify_text(const Verification& verification, const VerifyContext& context);

// One object on one line.
std::string verify_json(const Verification& verification, const VerifyContext& context);

}  // namespace lockstep
