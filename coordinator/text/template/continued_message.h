// SPDX-License-Identifier: Apache-2.0
// continue_final_message, as in transformers: a tag after the last message's text shows where the
// prompt must end.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "base/status.h"
#include "coordinator/text/marked_text.h"

namespace lockstep {

// Whether this value of the request's field asks to continue the last message: it is true, or the
// name of the message's field to continue.
bool continues(const OrderedJson& continue_final_message);

class ContinuedMessage {
 public:
  // Puts the tag after the last message's text. The template with this `source` must read the
  // field.
  static absl::StatusOr<ContinuedMessage> mark(const OrderedJson& continue_final_message,
                                               std::string_view source, OrderedJson* messages);

  // Removes the tag and all text after it.
  absl::Status cut(MarkedText* text) const;

 private:
  std::string words_;  // The last message's text.
};

}  // namespace lockstep
