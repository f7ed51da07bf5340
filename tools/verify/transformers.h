// SPDX-License-Identifier: Apache-2.0
// Hugging Face transformers, run by tools/verify_reference.py in another process.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "absl/status/statusor.h"

namespace lockstep {

struct TransformersOptions {
  std::string python = "python3";  // An interpreter that has torch and transformers.
  std::filesystem::path model;     // A folder.
  bool trust_remote_code = false;  // Runs code from the folder.
};

// Computes the prompt in float32 on the CPU and writes the modules' outputs to `file`, for
// Reference. Returns the version: "transformers 5.23.0". kFailedPrecondition, one line: either the
// interpreter or a package is missing (the line says how to install it), or transformers failed
// (the line has its error).
absl::StatusOr<std::string> run_transformers(const TransformersOptions& options,
                                             std::span<const int32_t> prompt,
                                             const std::filesystem::path& file);

}  // namespace lockstep
