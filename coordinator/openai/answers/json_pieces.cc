// SPDX-License-Identifier: Apache-2.0
#include "coordinator/openai/answers/json_pieces.h"

namespace lockstep::openai {

std::string with_member(const OrderedJson& object, std::string_view name, std::string_view value) {
  std::string text = write_json(object);
  text.pop_back();
  for (const std::string_view more :
       {std::string_view(",\""), name, std::string_view("\":"), value, std::string_view("}")}) {
    text += more;
  }
  return text;
}

void append_entry(std::string_view entry, std::string* list) {
  if (!list->empty()) *list += ',';
  *list += entry;
}

}  // namespace lockstep::openai
