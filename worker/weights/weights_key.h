// SPDX-License-Identifier: Apache-2.0
// The name of a rank's packed weights: it is different whenever their bytes could be different.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "proto/program.pb.h"
#include "worker/assignment.h"
#include "worker/kernel_choice/bindings.h"

namespace lockstep {

// Raise it if weights are stored differently in a way that the probes in the .cc file do not show.
inline constexpr int kPackingVersion = 1;

// The digest as 64 hexadecimal digits.
std::string sha256(const std::string& text);

// SHA-256 of the weights' source, their recipes, the kernels that pack them, and the packed bytes
// of small weights. SourceMark::contents covers only a sample of the files, which may miss rows
// that a fine-tune changed. So the key also includes SourceMark::written_at.
absl::StatusOr<std::string> weights_key(const program::Program& program, const Bindings& bindings,
                                        const SourceMark& source);

}  // namespace lockstep
