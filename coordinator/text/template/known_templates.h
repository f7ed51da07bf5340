// SPDX-License-Identifier: Apache-2.0
// Chat templates that --chat-template takes by name, for models that were published without one.
#pragma once

#include <string>
#include <string_view>

namespace lockstep {

struct KnownTemplate {
  std::string_view name;
  std::string_view source;
};

// Null if there is no template of this name.
const KnownTemplate* find_known_template(std::string_view name);
// The names, separated by commas.
std::string known_template_names();

}  // namespace lockstep
