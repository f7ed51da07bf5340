// SPDX-License-Identifier: Apache-2.0
// Joins texts of JSON. Answers may have many log-probabilities: as text they take far less memory
// than as JSON values.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"

namespace lockstep::openai {

// The text of an object with one more member at its end. `value`: JSON.
std::string with_member(const OrderedJson& object, std::string_view name, std::string_view value);

// Appends an entry to the text of a list without its brackets.
void append_entry(std::string_view entry, std::string* list);

}  // namespace lockstep::openai
