// SPDX-License-Identifier: Apache-2.0
// W3C Trace Context: the trace of the client to which a request belongs.
#pragma once

#include <string>
#include <string_view>

namespace lockstep {

// The value of a header `traceparent` if it is valid; else "". If its version is above 00, the part
// that version 00 defines must be valid, and the whole must be at most 256 bytes of the allowed
// characters.
// https://www.w3.org/TR/trace-context/#traceparent-header
std::string traceparent_of(std::string_view value);

}  // namespace lockstep
