// SPDX-License-Identifier: Apache-2.0
// A template's variables from JSON.
#pragma once

#include "coordinator/text/jinja/runtime.h"
#include "coordinator/text/jinja/template.h"

namespace lockstep::jinja {

// kInvalidArgument for integers of more than 64 bits.
Result from_json(Runtime& runtime, const OrderedJson& json, IsFromRequest is_from_request);

}  // namespace lockstep::jinja
