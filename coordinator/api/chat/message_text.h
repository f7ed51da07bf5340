// SPDX-License-Identifier: Apache-2.0
// The text of a message: its content, or its parts with line ends between them.
#pragma once

#include <string>

#include "proto/generate.pb.h"

namespace lockstep {

bool has_text(const v1::ChatMessage& message);
std::string text_of(const v1::ChatMessage& message);

}  // namespace lockstep
