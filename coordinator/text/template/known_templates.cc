// SPDX-License-Identifier: Apache-2.0
// Each row gives the text of the published template of that name.
#include "coordinator/text/template/known_templates.h"

#include <algorithm>

namespace lockstep {
namespace {

constexpr KnownTemplate kTemplates[] = {
    // A message is its role and its content between <|im_start|> and <|im_end|>. Qwen, Yi, Hermes,
    // Dolphin and most fine-tunes without their own form use this template.
    {"chatml",
     "{% for message in messages %}"
     "<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>{{ '\n' }}"
     "{% endfor %}"
     "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"},
};

}  // namespace

const KnownTemplate* find_known_template(std::string_view name) {
  const auto* found = std::ranges::find(kTemplates, name, &KnownTemplate::name);
  return found == std::end(kTemplates) ? nullptr : found;
}

std::string known_template_names() {
  std::string names;
  for (const KnownTemplate& known : kTemplates) {
    if (!names.empty()) names += ", ";
    names += known.name;
  }
  return names;
}

}  // namespace lockstep
