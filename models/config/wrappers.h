// SPDX-License-Identifier: Apache-2.0
// Multimodal checkpoints: finds the part of config.json that describes the text model. Only the
// text model runs. Towers for images and sound, projectors and their tensors are not read.
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
  // The prefix of the text part's tensors: "language_model", or "model.language_model", which
  // replaces the text model's own "model"; "": the names are unchanged.
  std::string scope;
  std::string object;            // The name in kTextObjects of the part's object; "": none.
  Json beside = Json::object();  // The relevant members beside that object.
  bool tie_disputed = false;     // See Config.
  // Values of missing keys, in our names: the defaults of the text model's class.
  Json defaults = Json::object();
};

// Replaces a multimodal config.json by the config of its text part: the object in kTextObjects, or
// without one the whole file. Members of the outer object about weights and tokens are added; the
// text part's model_type decides the architecture. The config of a text model is unchanged. An
// error names the key.
absl::StatusOr<TextPart> unwrap_text(Json& json);

// The architectures that unwrap_text() handles.
std::vector<std::string_view> wrapper_names();

}  // namespace lockstep
