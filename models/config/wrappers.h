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

// Names of the object that has the text part of a multimodal model.
inline constexpr std::string_view kTextObjects[] = {"text_config", "language_config", "llm_config"};

struct TextPart {
  // The begin of its tensors' names: "language_model", or "model.language_model" in place
  // of the "model" that they have alone; "": they are as they are alone.
  std::string scope;
  std::string object;            // The one of kTextObjects that it was in; "": of none.
  Json beside = Json::object();  // The members beside that object that may matter.
  bool tie_disputed = false;     // See Config.
  // Values of keys that are missing, in our names: those of the text model's own class.
  Json defaults = Json::object();
};

// Makes the config.json of such a checkpoint that of its text part: the object of kTextObjects that
// it has, or all of it, with what is said beside it of weights and tokens, under the architecture
// that its model_type names. Any other stays as it is. An error names the key.
absl::StatusOr<TextPart> unwrap_text(Json& json);

// The architectures that unwrap_text() knows.
std::vector<std::string_view> wrapper_names();

}  // namespace lockstep
