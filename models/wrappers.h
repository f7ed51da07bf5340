// SPDX-License-Identifier: Apache-2.0
// Checkpoints that also see: what of their config.json is the text model's, which is all that runs.
// Towers, projectors and their tensors are not read.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/json.h"

namespace lockstep {

// Makes the config.json of such a checkpoint that of its text part: text_config, with what the
// outer object says of weights and tokens, under the architecture that its model_type names. Any
// other stays as it is. Returns what the names of the text part's tensors begin with, "" for any
// other: "language_model", or "model.language_model" in place of the "model" that they have alone.
// An error names the key.
absl::StatusOr<std::string> unwrap_text(Json& json);

// The architectures that unwrap_text() knows.
std::vector<std::string_view> wrapper_names();

}  // namespace lockstep
