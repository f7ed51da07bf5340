// SPDX-License-Identifier: Apache-2.0
// Places in texts: Python counts code points, we store bytes.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "coordinator/text/jinja/value.h"

namespace lockstep::jinja {

// The byte at which a code point begins; the text's size for its length. Takes time by the offset
// where the text is not ASCII.
size_t byte_offset(const Text& text, int64_t code_point);

// The same for all code points, and the text's size at the end.
std::vector<size_t> byte_offsets(const Text& text);

// At most `bytes` bytes of a text, cut between code points.
std::string_view clipped(std::string_view text, size_t bytes);

}  // namespace lockstep::jinja
