// SPDX-License-Identifier: Apache-2.0
// W3C Trace Context: which trace of a client's a request belongs to.
#pragma once

#include <string>
#include <string_view>

namespace lockstep {

// The value of a header `traceparent`, if it is one; else "". Of a version above 00 the part that
// version 00 knows has to be right, and all of it at most 256 bytes of its characters.
// https://www.w3.org/TR/trace-context/#traceparent-header
std::string traceparent_of(std::string_view value);

}  // namespace lockstep
