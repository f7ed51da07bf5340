// SPDX-License-Identifier: Apache-2.0
// continue_final_message, as the reference does it: a tag behind the last message's text shows
// where the prompt has to end.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "base/status.h"
#include "coordinator/text/marked_text.h"

namespace lockstep {

// Whether the field of a request asks for it: true, or the name of the field to go on with.
bool continues(const OrderedJson& continue_final_message);

class ContinuedMessage {
 public:
  // Puts the tag behind the last message's text. `source` is the template's: it has to read the
  // field.
  static absl::StatusOr<ContinuedMessage> mark(const OrderedJson& continue_final_message,
                                               std::string_view source, OrderedJson* messages);

  // Removes the tag and everything behind it.
  absl::Status cut(MarkedText* text) const;

 private:
  std::string words_;  // The last message's text.
};

}  // namespace lockstep
