// SPDX-License-Identifier: Apache-2.0
#include "coordinator/api/chat/message_text.h"

#include <algorithm>

#include "absl/strings/str_join.h"

namespace lockstep {

bool has_text(const v1::ChatMessage& message) {
  return !message.content().empty() ||
         std::ranges::any_of(message.content_parts(),
                             [](const std::string& part) { return !part.empty(); });
}

std::string text_of(const v1::ChatMessage& message) {
  if (message.content_parts_size() == 0) return message.content();
  return absl::StrJoin(message.content_parts(), "\n");
}

}  // namespace lockstep
